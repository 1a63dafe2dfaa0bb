package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// Bucket is the file's token bucket as a file has it, with its defaults; "" without one.
func (c *Config) Bucket() string {
	if c == nil || c.bucket == nil {
		return ""
	}
	return c.doc.bucket.String()
}

// Cost is what a retry pays to the file's token bucket after a failure of that kind; 0 without one.
func (c *Config) Cost(k retry.Kind) int {
	if c == nil || c.bucket == nil {
		return 0
	}
	return int(c.bucket.costs.of(k))
}

// fields are those of an object, in order: names, and values as they are written.
type fields [][2]string

// String is the object on one line.
func (f fields) String() string {
	var list []string
	for _, kv := range f {
		list = append(list, strconv.Quote(kv[0])+":"+kv[1])
	}
	return "{" + strings.Join(list, ",") + "}"
}

// policyOf is the policy of an entry as a file has it, "" without one.
func (c *Config) policyOf(e *entryDoc) string {
	attempts := func(n uint64) string { return strconv.FormatUint(min(n, uint64(c.options.MaxAttemptsCap)), 10) }
	switch {
	case e.retry != nil:
		return fields{{"retryPolicy", e.retry.text(attempts)}}.String()
	case e.hedge != nil:
		h := e.hedge
		text := fields{
			{"maxAttempts", attempts(h.maxAttempts)},
			{"hedgingDelay", quoted(h.delay)},
			{"nonFatalReasons", h.failures.String()},
			{"pinned", strconv.FormatBool(h.pinned)},
		}
		return fields{{"hedgingPolicy", text.String()}}.String()
	}
	return ""
}

func (p *retryDoc) text(attempts func(uint64) string) string {
	o := fields{{"maxAttempts", attempts(p.maxAttempts)}}
	if p.delays != nil {
		var ds []string
		for _, d := range p.delays {
			ds = append(ds, quoted(d))
		}
		o = append(o, [2]string{"delays", "[" + strings.Join(ds, ",") + "]"})
	} else {
		o = append(o, [][2]string{
			{"initialBackoff", quoted(p.initial)},
			{"maxBackoff", quoted(p.max)},
			{"backoffMultiplier", strconv.FormatFloat(p.multiplier, 'g', -1, 64)},
		}...)
	}
	o = append(o, [][2]string{
		{"jitter", strconv.Quote(jitters[p.spread()].name)}, {"retryableReasons", p.failures.String()},
	}...)
	for _, l := range [...]struct {
		name string
		d    time.Duration
	}{{"softLimit", p.soft}, {"hardLimit", p.hard}} {
		if l.d > 0 {
			o = append(o, [2]string{l.name, quoted(l.d)})
		}
	}
	o = append(o, [][2]string{{"fit", strconv.Quote(p.fit.String())}, {"pinned", strconv.FormatBool(p.pinned)}}...)
	return o.String()
}

// String is the bucket as a file has it.
func (b *bucketDoc) String() string {
	o := fields{{"capacity", strconv.Itoa(b.capacity)}}
	if b.refill > 0 {
		o = append(o, [2]string{"refill", quoted(b.refill)})
	}
	var costs fields
	for i, k := range bucketKinds {
		costs = append(costs, [2]string{k.String(), strconv.FormatUint(b.costs[i], 10)})
	}
	return append(o, [2]string{"costs", costs.String()}).String()
}

// String is the list as a file has it: names of reasons, then numbers.
func (f *failures) String() string {
	var list []string
	for why := range f.reasons.All() {
		list = append(list, strconv.Quote(why.String()))
	}
	for _, n := range f.numbers() {
		list = append(list, strconv.FormatUint(uint64(n), 10))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// quoted is a duration as a file has it, to the nanosecond.
func quoted(d time.Duration) string {
	whole, part := d/time.Second, d%time.Second
	text := fmt.Sprintf("%d.%09d", whole, part)
	return `"` + strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + `s"`
}
