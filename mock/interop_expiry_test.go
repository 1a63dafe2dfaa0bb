package mock_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// expiryStep is a step of a program in which time passes. Times that pass are multiples of 10 s, and expiries are not,
// so that what expires does so seconds away from any step.
func expiryStep(random *rand.Rand) step {
	switch random.IntN(10) {
	case 0, 1:
		return step{passes: 10 * (1 + random.IntN(4))}
	case 2:
		return step{op: memd.OpGetLocked, key: random.IntN(3), lock: []byte{0, 0, 0, []byte{0, 15, 25}[random.IntN(3)]}}
	case 3:
		return step{op: memd.OpUnlockKey, key: random.IntN(3), cas: lastCAS}
	}
	var st step
	if random.IntN(4) == 0 {
		st = severalStep(random)
	} else {
		st = pathStep(random)
	}
	if st.expiry != never {
		st.expiry = []uint32{0, 15, 45, 75}[random.IntN(4)]
	}
	return st
}

const (
	realPrograms = 300
	realExpiry   = 4 // seconds
	realPass     = 6
	realLimit    = 2 * time.Second // for what is sent between two passes
)

// realExpiries is one program in which time passes twice for many documents at once: memcached's clock cannot be moved.
func realExpiries(random *rand.Rand) (program []step) {
	for range 3 {
		for range realPrograms * stepsEach / 3 {
			st := documentStep(random)
			st.key, st.expiry = random.IntN(3*realPrograms), uint32(realExpiry*random.IntN(2))
			program = append(program, st)
		}
		program = append(program, step{passes: realPass})
	}
	return program[:len(program)-1]
}

// compareExpiries runs realExpiries on a mock and on memcached. Where the machine is so slow that documents expire in
// between, there is nothing to compare.
func compareExpiries(t *testing.T, theirs server, met ledger) {
	last := time.Now()
	theirs.pass = func(seconds int) {
		if took := time.Since(last); took > realLimit {
			t.Skipf("the requests between two passes took %v", took)
		}
		time.Sleep(time.Duration(seconds) * time.Second)
		last = time.Now()
	}
	node := mock.Start(t, mock.Nodes(1), mock.Replicas(0), mock.Bucket("default", 64))
	ours := server{dial: func(int) *raw { return login(t, node) }, pass: func(int) {}} // both have the machine's clock
	c := &contest{
		ours: newSubject(ours, 1), theirs: newSubject(theirs, 1), keys: "e", known: memcachedDiffers, met: met,
	}
	program := realExpiries(rand.New(rand.NewPCG(1, 42)))
	at, our, their := c.differs(t, program)
	if at >= 0 {
		key := program[at].key
		program = slices.DeleteFunc(program[:at+1], func(st step) bool { return st.key != key && st.passes == 0 })
	}
	require.Negative(t, at, "the mock says %s, memcached %s, to the last of\n%v", our, their, program)
}

// What CouchbaseMock does otherwise when time passes.
var expiryDiffers = []difference{
	{
		topic: "the expiry of a counter",
		ops:   everyOp, when: counted, ours: "0x0[15]", theirs: ".*", differ: true,
		why: "a counter that is there keeps its expiry (arithmetic_context.cc)",
	},
	{
		topic: "the expiry of a counter",
		ops:   everyOp, when: counted, ours: ".*", theirs: "0x0[15]( with a CAS)?", differ: true,
		why: "so it may be there for longer",
	},
	{
		topic: "the expiry of a counter",
		ops: []memd.Opcode{
			memd.OpSet, memd.OpAdd, memd.OpIncrement, memd.OpDecrement, memd.OpSubdocMultiMutation,
		},
		when: counted, ours: "0x0.*|0xcc.*", theirs: "0x0.*|0xcc.*", differ: true,
		why: "or be made anew where another goes on",
	},
}

// everyOp are the commands of these programs.
var everyOp = slices.Concat(documentOps, subdocumentOps, []memd.Opcode{
	memd.OpGetLocked, memd.OpUnlockKey, memd.OpSubdocMultiLookup, memd.OpSubdocMultiMutation,
})

// counted reports whether a document was counted, and time has passed since.
func counted(before []step, _ step) bool {
	i := slices.IndexFunc(before, func(b step) bool { return b.passes == 0 && counts(b.op) })
	return i >= 0 && slices.ContainsFunc(before[i:], func(b step) bool { return b.passes > 0 })
}
