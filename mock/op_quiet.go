package mock

import "github.com/couchcore/couchcore/memd"

// The quiet forms: like the commands that they are named after, but one that reads is silent about a missing key, and
// one that changes is silent about success. None is durable, and none is overtaken.

var quietForms = map[memd.Opcode]memd.Opcode{
	memd.OpGetQ: memd.OpGet, memd.OpGetKQ: memd.OpGetK, memd.OpSetQ: memd.OpSet, memd.OpAddQ: memd.OpAdd,
	memd.OpReplaceQ: memd.OpReplace, memd.OpDeleteQ: memd.OpDelete, memd.OpIncrementQ: memd.OpIncrement,
	memd.OpDecrementQ: memd.OpDecrement, memd.OpQuitQ: memd.OpQuit, memd.OpAppendQ: memd.OpAppend,
	memd.OpPrependQ: memd.OpPrepend, memd.OpGATQ: memd.OpGAT, memd.OpGetQMeta: memd.OpGetMeta,
	memd.OpSetQWithMeta: memd.OpSetWithMeta, memd.OpAddQWithMeta: memd.OpAddWithMeta,
	memd.OpDelQWithMeta: memd.OpDelWithMeta,
}

func init() {
	for q, base := range quietForms {
		sp := *specs[base]
		sp.quiet, sp.durable, sp.fleeting, sp.reorder = true, false, false, false
		specs[q] = &sp
	}
}

// baseForm is the opcode whose quiet form op is, or op itself.
func baseForm(op memd.Opcode) memd.Opcode {
	if base, ok := quietForms[op]; ok {
		return base
	}
	return op
}

// hushed reports whether an answer is one that a quiet command does not send.
func (rq *request) hushed(rep *reply) bool {
	switch {
	case rq.spec == nil || !rq.spec.quiet:
		return false
	case rq.spec.mutates && baseForm(rq.p.Opcode) != memd.OpGAT || rep.closes:
		return rep.status == memd.StatusSuccess
	}
	return rep.status == memd.StatusKeyNotFound
}
