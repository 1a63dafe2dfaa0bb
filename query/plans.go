package query

import (
	"container/list"
	"sync"
)

// DefaultMaxPlans is how many plans a Service keeps unless told.
const DefaultMaxPlans = 5000

// maxPlanBytes bounds the memory of a Service's plans, texts of statements included.
const maxPlanBytes = 32 << 20

// planKey is what a plan was made of.
type planKey struct{ statement, context string }

// plan is a statement that the service has prepared. It does not change.
type plan struct {
	name    string
	encoded string // "" where the service finds it by its name alone
}

// plans are the prepared statements of a cluster, the least recently used of which go first. Safe for concurrent use.
type plans struct {
	most int

	mu     sync.Mutex
	byKey  map[planKey]*list.Element
	recent list.List // of *kept, the latest use first
	bytes  int
}

type kept struct {
	key  planKey
	plan *plan
}

func (k *kept) size() int {
	return len(k.key.statement) + len(k.key.context) + len(k.plan.name) + len(k.plan.encoded)
}

func newPlans(most int) *plans { return &plans{most: most, byKey: map[planKey]*list.Element{}} }

func (p *plans) get(key planKey) *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byKey[key]
	if e == nil {
		return nil
	}
	p.recent.MoveToFront(e)
	return keptOf(e).plan
}

func keptOf(e *list.Element) *kept {
	k, _ := e.Value.(*kept)
	return k
}

func (p *plans) put(key planKey, pl *plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byKey[key]; e != nil {
		p.remove(e)
	}
	k := &kept{key, pl}
	p.byKey[key] = p.recent.PushFront(k)
	p.bytes += k.size()
	for p.recent.Len() > p.most || p.bytes > maxPlanBytes && p.recent.Len() > 0 {
		p.remove(p.recent.Back())
	}
}

// drop removes a plan that the service does not know any more, unless another one has taken its place.
func (p *plans) drop(key planKey, pl *plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byKey[key]; e != nil && keptOf(e).plan == pl {
		p.remove(e)
	}
}

func (p *plans) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.byKey)
	p.recent.Init()
	p.bytes = 0
}

func (p *plans) remove(e *list.Element) {
	k := keptOf(e)
	delete(p.byKey, k.key)
	p.bytes -= k.size()
	p.recent.Remove(e)
}
