package mock_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// The same random programs of requests run on the mock and on two servers that share no code with it: CouchbaseMock and
// memcached. The recorded outcomes of kv_engine are the third (TestTheMockAnswersAsKVEngine_D125). Every difference has
// a row in a table here, with what kv_engine does; another one fails, with the shortest program that shows it.

const (
	programs  = 1000 // for each server
	stepsEach = 30
)

// step is one request of a program.
type step struct {
	op      memd.Opcode
	key     int
	value   string
	path    string // of a sub-document command
	create  bool   // its flag to make what the path leads through
	cas     casOf
	expiry  uint32 // 0, long after the test, or, for counters, "do not make the document"
	initial uint64 // of a counter
	flags   uint32
}

// casOf says which CAS a step sends.
type casOf int

const (
	noCAS casOf = iota
	lastCAS
	wrongCAS
)

func (s step) String() string {
	return fmt.Sprintf("%v key=%d value=%q path=%q create=%v cas=%d expiry=%#x initial=%d flags=%#x",
		s.op, s.key, s.value, s.path, s.create, s.cas, s.expiry, s.initial, s.flags)
}

const never = 0xffffffff // as a counter's expiry: fail where there is no document

// subject is a server that programs run on.
type subject struct {
	r    *raw
	keys string // what its keys begin with
	last map[int]uint64
}

// run gives what the server says to each step.
func (s *subject) run(program []step) (said []string) {
	s.last = map[int]uint64{}
	for _, st := range program {
		said = append(said, s.say(st))
	}
	return said
}

// say sends a step and puts in words what a client sees of the answer.
func (s *subject) say(st step) string {
	p := s.r.call(s.packet(st))
	said := fmt.Sprintf("%#02x", uint16(p.Status))
	ok := p.Status == memd.StatusSuccess
	switch {
	case !ok:
		if p.CAS != 0 {
			said += " with a CAS"
		}
		return said
	case st.op == memd.OpGet || st.op == memd.OpGAT:
		said += fmt.Sprintf(" flags=%x %q", p.Extras, p.Value)
	case subdocument(st.op) || counts(st.op):
		said += fmt.Sprintf(" %q", p.Value)
	}
	before := s.last[st.key]
	switch {
	case st.op == memd.OpDelete:
		delete(s.last, st.key)
		return said
	case p.CAS == 0:
		said += " no CAS"
	case p.CAS == before:
		said += " same CAS"
	default:
		said += " new CAS"
	}
	s.last[st.key] = p.CAS
	return said
}

func (s *subject) packet(st step) memd.Packet {
	p := memd.Packet{Opcode: st.op, Key: fmt.Appendf(nil, "%s-%d", s.keys, st.key), Value: []byte(st.value)}
	switch st.cas {
	case lastCAS:
		p.CAS = s.last[st.key]
	case noCAS:
	case wrongCAS:
		p.CAS = s.last[st.key] ^ 0x5a5a
	}
	number := binary.BigEndian.AppendUint32
	switch {
	case st.op == memd.OpSet || st.op == memd.OpAdd || st.op == memd.OpReplace:
		p.Extras = number(number(nil, st.flags), st.expiry)
	case counts(st.op):
		p.Extras = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 3), st.initial)
		p.Extras, p.Value = number(p.Extras, st.expiry), nil
	case st.op == memd.OpTouch || st.op == memd.OpGAT:
		p.Extras, p.Value = number(nil, st.expiry), nil
	case subdocument(st.op):
		p.Extras = append(binary.BigEndian.AppendUint16(nil, uint16(len(st.path))), 0)
		if st.create && makesPath(st.op) {
			p.Extras[2] = 1
		}
		if st.op == memd.OpSubdocGet || st.op == memd.OpSubdocExists || st.op == memd.OpSubdocDelete {
			p.Value = nil
		}
		p.Value = append([]byte(st.path), p.Value...)
	case st.op == memd.OpGet || st.op == memd.OpDelete:
		p.Value = nil
	}
	return p
}

// takesCAS reports whether kv_engine takes a CAS with a request. It refuses one with the others as invalid, where other
// servers ignore it.
func takesCAS(op memd.Opcode) bool {
	switch op {
	case memd.OpGet, memd.OpGAT, memd.OpTouch, memd.OpAdd, memd.OpIncrement, memd.OpDecrement, memd.OpSubdocGet,
		memd.OpSubdocExists:
		return false
	}
	return true
}

// makesPath reports whether a sub-document command may make what its path leads through.
func makesPath(op memd.Opcode) bool {
	switch op {
	case memd.OpSubdocGet, memd.OpSubdocExists, memd.OpSubdocDelete, memd.OpSubdocReplace:
		return false
	}
	return subdocument(op)
}

func counts(op memd.Opcode) bool { return op == memd.OpIncrement || op == memd.OpDecrement }

func subdocument(op memd.Opcode) bool { return slices.Contains(subdocumentOps, op) }

var (
	documentOps = []memd.Opcode{
		memd.OpGet, memd.OpSet, memd.OpAdd, memd.OpReplace, memd.OpDelete, memd.OpIncrement, memd.OpDecrement,
		memd.OpAppend, memd.OpPrepend, memd.OpTouch, memd.OpGAT,
	}
	subdocumentOps = []memd.Opcode{
		memd.OpSubdocGet, memd.OpSubdocExists, memd.OpSubdocDictAdd, memd.OpSubdocDictUpsert, memd.OpSubdocDelete,
		memd.OpSubdocReplace, memd.OpSubdocArrayPushLast, memd.OpSubdocArrayPushFirst, memd.OpSubdocArrayAddUnique,
		memd.OpSubdocCounter,
	}
	changingOps = subdocumentOps[2:] // those that change the document
	writingOps  = []memd.Opcode{     // those that bring a part of it
		memd.OpSubdocDictAdd, memd.OpSubdocDictUpsert, memd.OpSubdocReplace, memd.OpSubdocArrayPushLast,
		memd.OpSubdocArrayPushFirst, memd.OpSubdocArrayAddUnique,
	}
	values = []string{"", "7", "18446744073709551615", "text", `{"a":1}`, `{"a":{"b":[1,2]},"n":5}`, "[1]", "-1", "007"}
	paths  = []string{"a", "a.b", "a.b[0]", "a.b[-1]", "a.b[7]", "n", "x.y", "[0]", "a..b", "b[", "a.n"}
	parts  = []string{"1", `"s"`, `{"c":2}`, "[3]", "-4", "nojson", "true", "0"}
)

// randomStep is the next step of a program; documents are few, so that steps meet.
func randomStep(random *rand.Rand, ops []memd.Opcode) step {
	st := step{
		op: ops[random.IntN(len(ops))], key: random.IntN(3), value: values[random.IntN(len(values))],
		path: paths[random.IntN(len(paths))], create: random.IntN(2) == 0, cas: casOf(random.IntN(3)),
		initial: uint64(random.IntN(9)), flags: random.Uint32(),
	}
	if random.IntN(3) == 0 || !takesCAS(st.op) {
		st.cas = noCAS
	}
	switch {
	case random.IntN(3) == 0:
		st.expiry = uint32(time.Now().Add(24 * time.Hour).Unix())
	case counts(st.op) && random.IntN(2) == 0:
		st.expiry = never
	}
	if subdocument(st.op) {
		st.value = parts[random.IntN(len(parts))]
	}
	return st
}

// difference is something that servers answer in two ways.
type difference struct {
	topic        string // its row of FIDELITY.md
	ops          []memd.Opcode
	ours, theirs string                            // regular expressions for all that say gives
	when         func(before []step, st step) bool // by the program as well; nil for always
	same         bool                              // all but the CAS
	differ       bool                              // the documents are not the same from here on
	why          string
}

// aboutCAS is what say gives about a CAS.
var aboutCAS = regexp.MustCompile(` (same|new|no) CAS$`)

// explains reports whether d is what the two have said to st, behind the steps before it.
func (d *difference) explains(before []step, st step, ours, theirs string) bool {
	if d.when != nil && !d.when(before, st) ||
		d.same && aboutCAS.ReplaceAllString(ours, "") != aboutCAS.ReplaceAllString(theirs, "") {
		return false
	}
	return slices.Contains(d.ops, st.op) && regexp.MustCompile("^(?:"+d.ours+")$").MatchString(ours) &&
		regexp.MustCompile("^(?:"+d.theirs+")$").MatchString(theirs)
}

// compare runs programs on the mock and on another server and fails for each difference that known does not explain.
func compare(t *testing.T, other *raw, ops []memd.Opcode, known []difference) {
	t.Helper()
	ours := &subject{r: login(t, mock.Start(t, mock.Nodes(1), mock.Replicas(0), mock.Bucket("default", 64)))}
	theirs := &subject{r: other}
	met := make([]bool, len(known))
	count := 0
	differs := func(program []step) (at int, our, their string) {
		count++
		ours.keys, theirs.keys = fmt.Sprint("k", count), fmt.Sprint("k", count)
		for _, r := range []*raw{ours.r, theirs.r} { // each program has its time, however many there are
			require.NoError(t, r.nc.SetDeadline(time.Now().Add(patience)))
		}
		a, b := ours.run(program), theirs.run(program)
		for i, st := range program {
			if a[i] == b[i] {
				continue
			}
			d := slices.IndexFunc(known, func(d difference) bool { return d.explains(program[:i], st, a[i], b[i]) })
			if d < 0 {
				return i, a[i], b[i]
			}
			met[d] = true
			if known[d].differ {
				break
			}
		}
		return -1, "", ""
	}
	for seed := range uint64(programs) {
		random := rand.New(rand.NewPCG(seed, 42))
		program := make([]step, stepsEach)
		for i := range program {
			program[i] = randomStep(random, ops)
		}
		at, our, their := differs(program)
		if at < 0 {
			continue
		}
		program = program[:at+1]
		for i := 0; i < len(program)-1; { // leave out what the difference does not need
			shorter := slices.Delete(slices.Clone(program), i, i+1)
			if n, a, b := differs(shorter); n == len(shorter)-1 {
				program, our, their = shorter, a, b
				continue
			}
			i++
		}
		t.Errorf("seed %d: the mock says %s, the other server %s, to the last of\n%v", seed, our, their, program)
	}
	for i, d := range known {
		require.True(t, met[i], "no program met this difference: %s", d.why)
	}
}

// dialAt is a connection to a server of another kind.
func dialAt(t testing.TB, addr string) *raw {
	t.Helper()
	var d net.Dialer
	nc, err := d.DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(2*patience)))
	return &raw{t: t, nc: nc}
}

func TestTheMockAnswersAsMemcached(t *testing.T) {
	compare(t, dialAt(t, testkit.Memcached(t, false).Addr), documentOps, memcachedDiffers)
}

func TestTheMockAnswersAsCouchbaseMock(t *testing.T) {
	o := testkit.MockOptions{Nodes: 1, Replicas: -1, Buckets: []string{"default:secret"}}
	testkit.CouchbaseMock(t, o, func(t *testing.T, m *testkit.CouchbaseMockServer) {
		r := dialAt(t, m.Addresses("default")[0])
		require.Equal(t, memd.StatusSuccess, r.call(saslPlainPacket("default", "secret")).Status)
		compare(t, r, slices.Concat(documentOps, subdocumentOps), couchbaseMockDiffers)
	})
}
