package kv

import (
	"context"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Stat asks one node for a group of its statistics: any, the one with index Node when Pinned is set, or the one that
// holds VBucket when ByVBucket is. StatAll asks all of them.
type Stat struct {
	Common
	Group     string // "" is the general one
	Args      []byte // JSON, for the groups that take some
	Pinned    bool
	Node      int
	ByVBucket bool
	VBucket   uint16
}

// StatResult is the result of Stat.
type StatResult struct {
	Result
	Stats []struct{ Name, Value string } // in the node's order
}

// Get is the value of a statistic; false when the node gave none of that name.
func (s *StatResult) Get(name string) (string, bool) {
	for _, e := range s.Stats {
		if e.Name == name {
			return e.Value, true
		}
	}
	return "", false
}

// encode implements Op.
func (s Stat) encode(r *call.Request) (decoder[StatResult], error) {
	setCommon(r, &s.Common)
	r.Opcode, r.Key, r.Value = memd.OpStat, []byte(s.Group), s.Args
	if s.Pinned && s.ByVBucket {
		return nil, badArgument("node", "is given together with a vbucket")
	}
	if len(s.Group) > MaxKeyLen {
		return nil, outOfRange("group length", int64(len(s.Group)), MaxKeyLen)
	}
	if len(s.Args) > 0 {
		r.Datatype = memd.DatatypeJSON
	}
	r.Pinned, r.ByVBucket, r.VBucket = s.Pinned, s.ByVBucket, s.VBucket
	setNode(r, s.Node)
	return decodeStat, nil
}

// decodeStat makes the result of a Stat.
func decodeStat(r *call.Response) (StatResult, error) {
	if err := r.PartsError(); err != nil {
		return StatResult{}, err
	}
	res := StatResult{Result: resultOf(r), Stats: make([]struct{ Name, Value string }, len(r.Parts()))}
	for i, p := range r.Parts() {
		res.Stats[i].Name, res.Stats[i].Value = string(p.Key), string(p.Value)
	}
	return res, nil
}

// StatAll asks every node that holds the bucket's data, all at once, and waits for all of them. A node that fails has
// its error beside the others' statistics; the call itself fails only when the nodes are not known. op names the group.
// The result is by the node's index.
func StatAll(ctx context.Context, d Dispatcher, op Stat) (map[int]Outcome[StatResult], error) {
	return onEachNode[StatResult](ctx, d, memd.OpStat, &op.Common, func(node int) Stat {
		op.Pinned, op.Node, op.ByVBucket = true, node, false
		return op
	})
}

// onEachNode runs an operation on every node that holds the bucket's data, all at once, and waits for all. Until the
// nodes are known it waits as a call with c's timeout and strategy does.
func onEachNode[R any, O Op[R]](
	ctx context.Context, d Dispatcher, opcode memd.Opcode, c *Common, op func(node int) O,
) (all map[int]Outcome[R], err error) {
	d, leave := compound(d)
	defer leave()
	ctx, end := call.Compose(ctx, d.Runner(), call.SpecOf(opcode).Name+"-all-nodes", "", "")
	defer func() { end(err) }()
	w := call.MapWait{Verb: call.SpecOf(opcode).Name, Retry: c.Retry, Timeout: c.Timeout}
	l, err := awaitMap(ctx, d, w)
	if err != nil {
		return nil, err
	}
	futures := map[int]Future[R]{}
	for _, node := range l.DataNodes() {
		futures[node] = Start[R](ctx, d, op(node))
	}
	all = make(map[int]Outcome[R], len(futures))
	for node, f := range futures {
		r, err := f.Wait(context.WithoutCancel(ctx)) // the call itself ends with ctx
		all[node] = Outcome[R]{r, err}
	}
	return all, nil
}
