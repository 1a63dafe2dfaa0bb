package policy

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// Config is a policy file that was read. Its methods may be called from any goroutine and do not block; a nil Config
// has no entry and no throttle.
type Config struct {
	doc     *document // what follows is made of
	options ParseOptions

	entries  map[name]*Entry
	bound    func(retry.Strategy) retry.Strategy // Throttled; nil without a throttle
	throttle throttleDoc
	bucket   *Store // of all retry policies together; nil without one
	// nodes is replaced as a whole, so that finding a node's tokens takes no lock.
	nodes *atomic.Pointer[map[string]*Tokens]
}

// Entry is what a policy file says about an operation. What it points to is shared and must not be changed.
type Entry struct {
	// Rule has the policy, if there is one. Its Strategy is the finished stack: FastFailOnTerminalError, Only, Limit,
	// Throttle and Bucket if there are such, Pushback and BestEffort, from the outside in. It never blocks. Bound is
	// Config.Throttled, which holds for operations without an entry, too.
	retry.Rule[Hedge]
	Timeout time.Duration // 0 is the service's default
	// Text is the policy as a file has it, on one line: what is in force, defaults included, as {"retryPolicy":...} or
	// {"hedgingPolicy":...}. An entry with it does the same again. It is empty without a policy.
	Text string
}

// Hedge is a hedging policy.
type Hedge struct {
	MaxAttempts int           // the first send included
	Delay       time.Duration // between sends; 0 sends all at once
	NonFatal    retry.Reasons // failures after which the others may still succeed
	Codes       []uint32      // the same as the services' own numbers
}

// IsNonFatal reports whether the policy lists what an attempt has failed for. A failure that it has no reason for is
// not listed, nor is one that only an earlier attempt has met.
func (h *Hedge) IsNonFatal(err error) bool {
	why, code := retry.FailedFor(err)
	return why != retry.Unknown && h.NonFatal.Has(why) || code != 0 && slices.Contains(h.Codes, code)
}

// maxNodes bounds the nodes whose tokens are kept. Those beyond it are not throttled.
const maxNodes = 4096

func newConfig(d *document, o ParseOptions) *Config {
	c := &Config{
		doc: d, options: o, throttle: d.throttle, bucket: d.bucket.store(),
		nodes: new(atomic.Pointer[map[string]*Tokens]),
	}
	c.nodes.Store(&map[string]*Tokens{})
	if c.bucket != nil && o.Elapsed != nil {
		c.bucket.elapsed = o.Elapsed
	}
	c.build()
	return c
}

// WithJitterSource is the same file with a client's source of random numbers for its jitter, unless
// ParseOptions.JitterSource named one. The tokens are the same ones too.
func (c *Config) WithJitterSource(random retry.JitterSource) *Config {
	if c == nil || c.doc == nil || c.options.JitterSource != nil {
		return c
	}
	own := *c
	own.options.JitterSource = random
	own.build()
	return &own
}

// build makes the entries.
func (c *Config) build() {
	c.entries = make(map[name]*Entry)
	if _, _, ok := c.Throttling(); ok {
		c.bound = c.Throttled
	}
	most := uint64(c.options.MaxAttemptsCap)
	for i := range c.doc.entries {
		doc := &c.doc.entries[i]
		e := &Entry{Timeout: doc.timeout, Text: c.policyOf(doc)}
		e.Bound = c.bound
		switch {
		case doc.retry != nil:
			e.Strategy, e.Pinned = c.stack(doc.retry, most), doc.retry.pinned
		case doc.hedge != nil:
			p := doc.hedge
			e.Pinned = p.pinned
			e.Hedge = &Hedge{int(min(p.maxAttempts, most)), p.delay, p.failures.reasons, p.failures.numbers()}
		}
		for _, n := range doc.names {
			c.entries[n.name] = e
		}
	}
}

// transparent are retries of what no server has seen: no list, limit, budget or backoff of a file is about them.
var transparent = retry.BestEffort{Backoff: retry.Controlled}

// stack builds the strategy of a retry policy.
func (c *Config) stack(p *retryDoc, most uint64) retry.Strategy {
	var inner retry.Strategy = Pushback{Base: retry.BestEffort{Backoff: p.backoff(c.options.JitterSource)}}
	if c.bucket != nil {
		inner = Bucket{Base: inner, Store: c.bucket}
	}
	return retry.FastFailOnTerminalError{Base: Only{
		Reasons: p.failures.reasons,
		Codes:   p.failures.numbers(),
		Unseen:  transparent,
		Base: Limit{
			Base: c.Throttled(inner), MaxAttempts: int(min(p.maxAttempts, most)), Soft: p.soft, Hard: p.hard,
			Fit: p.fit,
		},
	}}
}

// For finds the entry for an operation: its own, else its service's, else the one for everything. ok is false when
// there is not one of them; the Entry then says only what binds every strategy.
func (c *Config) For(service retry.Service, operation string) (e Entry, ok bool) {
	if c == nil {
		return Entry{}, false
	}
	for _, n := range [...]name{{service, operation}, {service, ""}, {}} {
		if e, ok := c.entries[n]; ok {
			return *e, true
		}
	}
	return Entry{Rule: retry.Rule[Hedge]{Bound: c.bound}}, false
}

// Throttling gives the size of every node's set of tokens and the thousandths of one that a success gives back; ok is
// false when the file has no throttle.
func (c *Config) Throttling() (maxTokens, ratioMilli int, ok bool) {
	if c == nil || c.throttle.maxTokens == 0 {
		return 0, 0, false
	}
	return c.throttle.maxTokens, c.throttle.ratioMilli, true
}

// Tokens gives the tokens of the node at the endpoint, always the same ones until Retain drops them. They are nil,
// which throttles nothing, when the file has no throttle, for an empty endpoint, and for nodes beyond 4096. Once a node
// is known this takes no lock and allocates nothing.
func (c *Config) Tokens(endpoint string) *Tokens {
	maxTokens, ratioMilli, ok := c.Throttling()
	if !ok || endpoint == "" {
		return nil
	}
	for {
		old := c.nodes.Load()
		if t := (*old)[endpoint]; t != nil || len(*old) >= maxNodes {
			return t
		}
		nodes := maps.Clone(*old)
		nodes[strings.Clone(endpoint)] = NewTokens(maxTokens, ratioMilli)
		c.nodes.CompareAndSwap(old, &nodes) // who loses looks again
	}
}

// Allowed makes the throttle one of hedges (retry/hedge.Throttle): an operation that has been to a node in trouble
// sends no more of them.
func (c *Config) Allowed(endpoints []string) bool {
	return !slices.ContainsFunc(endpoints, func(e string) bool { return !c.Tokens(e).Allowed() })
}

// Failure takes a token of the node at the endpoint, for a failed attempt of a hedged operation.
func (c *Config) Failure(endpoint string) { c.Tokens(endpoint).Failure() }

// Retain drops the tokens of nodes that keep says false for, so that those that have left do not pile up. One that
// comes back starts with a full set. keep may be called more than once for an endpoint, and under no lock.
func (c *Config) Retain(keep func(endpoint string) bool) {
	if c == nil {
		return
	}
	for {
		old := c.nodes.Load()
		nodes := maps.Clone(*old)
		maps.DeleteFunc(nodes, func(endpoint string, _ *Tokens) bool { return !keep(endpoint) })
		if c.nodes.CompareAndSwap(old, &nodes) {
			return
		}
	}
}

// Throttled is s below the nodes' throttle, or s itself when the file has none or s is nil. It is for strategies that
// do not come from an entry, since the throttle of a node binds them too; an entry's stack has it already.
func (c *Config) Throttled(s retry.Strategy) retry.Strategy {
	if _, _, ok := c.Throttling(); !ok || s == nil {
		return s
	}
	return Throttle{Base: s, Node: c.Tokens}
}
