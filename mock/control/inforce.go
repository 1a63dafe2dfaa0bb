package control

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/mock"
)

// inForce is an injection, a script or an expectation.
type inForce struct {
	id   string
	what any // as it was asked for
	t    *mock.Injection

	counts        bool // an expectation
	least, atMost int  // of requests, of an expectation
	limited       bool // there is an upper bound
}

// kind is one of the three kinds of things in force.
type kind struct {
	name string
	all  func(*API) map[string]*inForce
}

var (
	injections   = kind{"injection", func(x *API) map[string]*inForce { return x.injections }}
	scripts      = kind{"script", func(x *API) map[string]*inForce { return x.scripts }}
	expectations = kind{"expectation", func(x *API) map[string]*inForce { return x.expected }}
)

// InForce is how an injection, a script or an expectation is.
type InForce struct {
	ID    string `json:"id"`
	Fired int    `json:"fired" doc:"how many requests it has met"`
	Met   *bool  `json:"met,omitempty" doc:"whether an expectation holds now"`
	What  any    `json:"what,omitempty" doc:"as it was asked for"`
}

func (f *inForce) describe() InForce {
	out := InForce{ID: f.id, Fired: f.t.Fired(), What: f.what}
	if f.counts {
		met := out.Fired >= f.least && (!f.limited || out.Fired <= f.atMost)
		out.Met = &met
	}
	return out
}

// id makes the name of a new object. The caller holds the mutex.
func (x *API) id(prefix string) string {
	x.nextID++
	return prefix + strconv.Itoa(x.nextID)
}

// put keeps what make puts in force, unless there are too many.
func (x *API) put(k kind, f *inForce, start func() *mock.Injection) (InForce, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := k.all(x)
	if len(all) >= MaxObjects {
		return InForce{}, tooMany(k.name+"s", MaxObjects)
	}
	f.id, f.t = x.id(k.name[:1]), start()
	all[f.id] = f
	return f.describe(), nil
}

func (c *call) find(k kind) (*inForce, error) {
	id := c.r.PathValue("id")
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if f := k.all(c.x)[id]; f != nil {
		return f, nil
	}
	return nil, notFound("id", "there is no %s %q", k.name, id)
}

// List is what there is of one kind, oldest first.
type List struct {
	Items []InForce `json:"items"`
}

func list(k kind) func(*call, *nothing) (List, error) {
	return func(c *call, _ *nothing) (List, error) {
		c.x.mu.Lock()
		all := slices.Collect(maps.Values(k.all(c.x)))
		c.x.mu.Unlock()
		slices.SortFunc(all, func(a, b *inForce) int {
			return cmp.Or(cmp.Compare(len(a.id), len(b.id)), cmp.Compare(a.id, b.id))
		})
		out := List{Items: []InForce{}}
		for _, f := range all {
			out.Items = append(out.Items, f.describe())
		}
		return out, nil
	}
}

// Wait says what a request waits for.
type Wait struct {
	Fired   int   `json:"fired" doc:"wait until it has met so many requests"`
	Timeout int64 `json:"timeout_ms" doc:"at most so long, 10 s unless told; the answer then has the number so far"`
}

const defaultWait = 10 * time.Second

func look(k kind) func(*call, *Wait) (InForce, error) {
	return func(c *call, in *Wait) (InForce, error) {
		f, err := c.find(k)
		if err != nil {
			return InForce{}, err
		}
		wait := cmp.Or(time.Duration(in.Timeout)*time.Millisecond, defaultWait)
		if in.Timeout < 0 || wait > MaxWait || wait < 0 {
			e := invalid("timeout_ms", "%d ms are not allowed", in.Timeout)
			e.Limit = MaxWait.Milliseconds()
			return InForce{}, e
		}
		ctx, cancel := context.WithTimeout(c.r.Context(), wait)
		defer cancel()
		_ = f.t.WaitFired(ctx, in.Fired) // a timeout shows in the number
		return f.describe(), nil
	}
}

func release(k kind) func(*call, *nothing) (InForce, error) {
	return func(c *call, _ *nothing) (InForce, error) {
		f, err := c.find(k)
		if err != nil {
			return InForce{}, err
		}
		f.t.Release()
		return f.describe(), nil
	}
}

func end(k kind) func(*call, *nothing) (InForce, error) {
	return func(c *call, _ *nothing) (InForce, error) {
		f, err := c.find(k)
		if err != nil {
			return InForce{}, err
		}
		f.t.Remove()
		f.t.Release()
		c.x.mu.Lock()
		delete(k.all(c.x), f.id)
		c.x.mu.Unlock()
		return f.describe(), nil
	}
}

// Expectation counts requests.
type Expectation struct {
	Match Match `json:"match"`
	Count *int  `json:"count,omitempty" doc:"exactly so many"`
	Min   *int  `json:"min,omitempty" doc:"at least so many"`
	Max   *int  `json:"max,omitempty" doc:"at most so many"`
}

func expect(c *call, in *Expectation) (InForce, error) {
	m, err := in.Match.read(c)
	if err != nil {
		return InForce{}, err
	}
	f := &inForce{what: in, counts: true}
	for _, bound := range []struct {
		name          string
		n             *int
		least, atMost bool
	}{{"count", in.Count, true, true}, {"min", in.Min, true, false}, {"max", in.Max, false, true}} {
		if bound.n == nil {
			continue
		}
		if *bound.n < 0 {
			return InForce{}, invalid(bound.name, "%d is negative", *bound.n)
		}
		if bound.least {
			f.least = max(f.least, *bound.n)
		}
		if bound.atMost && (!f.limited || *bound.n < f.atMost) {
			f.limited, f.atMost = true, *bound.n
		}
	}
	if f.limited && f.least > f.atMost {
		return InForce{}, invalid("max", "at least %d and at most %d is not possible", f.least, f.atMost)
	}
	return c.x.put(expectations, f, func() *mock.Injection { return c.x.c.Count(m) })
}
