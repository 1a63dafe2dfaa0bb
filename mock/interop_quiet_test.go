package mock_test

import (
	"math/rand/v2"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

// quietForms are the commands that have a quiet form.
var quietForms = map[memd.Opcode]memd.Opcode{
	memd.OpGet: memd.OpGetQ, memd.OpGetK: memd.OpGetKQ, memd.OpSet: memd.OpSetQ, memd.OpAdd: memd.OpAddQ,
	memd.OpReplace: memd.OpReplaceQ, memd.OpDelete: memd.OpDeleteQ, memd.OpIncrement: memd.OpIncrementQ,
	memd.OpDecrement: memd.OpDecrementQ, memd.OpAppend: memd.OpAppendQ, memd.OpPrepend: memd.OpPrependQ,
	memd.OpGAT: memd.OpGATQ,
}

// quietStep is a step of a program half of whose commands are quiet ones. It has no TOUCH, which has no quiet form and
// which CouchbaseMock answers without the CAS.
func quietStep(random *rand.Rand) step {
	ops := slices.DeleteFunc(slices.Clone(documentOps), func(op memd.Opcode) bool { return op == memd.OpTouch })
	st := randomStep(random, append(ops, memd.OpGetK))
	st.quiet = random.IntN(2) == 0
	return st
}

// whisper sends a quiet command with a NOOP behind it, and says what a client sees before the NOOP's answer. A server
// may end the connection instead.
func (s *subject) whisper(st step, q memd.Packet) answer {
	s.r.send(q, memd.Packet{Opcode: memd.OpNoop})
	opaque := s.r.opaque
	p, err := s.r.read()
	if err != nil {
		require.NoError(s.r.t, s.r.nc.Close())
		s.r = s.dial(0)
		return answer{said: "ends the connection"}
	}
	if p.Opcode == memd.OpNoop {
		require.Equal(s.r.t, opaque, p.Opaque)
		return answer{said: "silent"}
	}
	require.Equal(s.r.t, q.Opcode, p.Opcode)
	require.Equal(s.r.t, opaque-1, p.Opaque)
	s.r.next(memd.OpNoop, opaque)
	return s.words(st, p)
}

// What CouchbaseMock does otherwise with quiet commands. memcached does as the mock.
var quietDiffers = []difference{
	{
		topic: "quiet commands",
		ops:   []memd.Opcode{memd.OpGet, memd.OpGetK, memd.OpGAT}, when: quiet, ours: "silent|0x04",
		theirs: "ends the connection",
		why:    "kv_engine is silent about a key that is missing, CouchbaseMock takes the command for a fault",
	},
	{
		topic: "quiet commands",
		ops: []memd.Opcode{
			memd.OpDelete, memd.OpIncrement, memd.OpDecrement, memd.OpAppend, memd.OpPrepend,
		},
		when: quiet, ours: "silent|0x0[46]", theirs: "ends the connection", differ: true,
		why: "and about success; the same",
	},
	{
		topic: "quiet commands",
		ops:   []memd.Opcode{memd.OpGetK}, ours: "0x01 key", theirs: "0x01",
		why: "GETK tells the key that is missing (get_context.cc)",
	},
	{
		topic: "counters",
		ops:   []memd.Opcode{memd.OpIncrement, memd.OpDecrement}, ours: "silent", theirs: "0x06", differ: true,
		when: brought("18446744073709551615"), why: "counters of kv_engine have no sign, quiet ones neither",
	},
}

func quiet(_ []step, st step) bool { return st.quiet }
