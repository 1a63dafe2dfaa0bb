package mock_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
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
	programs  = 2000 // of each kind
	stepsEach = 30
	findings  = 25 // are enough
)

// difference is something that servers answer in two ways.
type difference struct {
	topic        string // its row of FIDELITY.md
	ops          []memd.Opcode
	ours, theirs string                            // regular expressions for all that say gives
	when         func(before []step, st step) bool // by the program as well; nil for always
	same         bool                              // all but the CAS
	moved        bool                              // all but the order
	differ       bool                              // the documents are not the same from here on
	stray        bool                              // it may be that no program meets it
	why          string
}

// aboutCAS is what say gives about a CAS.
var aboutCAS = regexp.MustCompile(` (same|new|no|hidden) CAS$`)

// explains reports whether d is what the two have said to st, behind the steps before it.
func (d *difference) explains(before []step, st step, ours, theirs string) bool {
	if d.when != nil && !d.when(before, st) ||
		d.same && aboutCAS.ReplaceAllString(ours, "") != aboutCAS.ReplaceAllString(theirs, "") {
		return false
	}
	if d.moved && inOrder(ours) != inOrder(theirs) {
		return false
	}
	return slices.Contains(d.ops, st.op) && regexp.MustCompile("^(?:"+d.ours+")$").MatchString(ours) &&
		regexp.MustCompile("^(?:"+d.theirs+")$").MatchString(theirs)
}

// trial is a kind of programs.
type trial struct {
	name     string
	keys     string // what its keys begin with
	next     func(*rand.Rand) step
	features []memd.Feature
	nodes    int          // 0 is one; of three, one has a replica
	known    []difference // each of them is to be met, by this kind or another
	also     []difference // of another kind; each may be met
}

// server is one of the two that a trial compares.
type server struct {
	dial func(node int) *raw
	pass func(seconds int) // moves its clock
}

// inOrder is a text with its bytes in order.
func inOrder(text string) string { return string(slices.Sorted(slices.Values([]byte(text)))) }

// contest compares two servers.
type contest struct {
	ours, theirs *subject
	known        []difference
	met          ledger
	keys         string
	count        int
}

// find explains a difference by one row.
func (c *contest) find(before []step, st step, ours, theirs string) (d *difference, ok bool) {
	i := slices.IndexFunc(c.known, func(d difference) bool { return d.explains(before, st, ours, theirs) })
	if i < 0 {
		return nil, false
	}
	c.met[c.known[i].mark()] = true
	return &c.known[i], true
}

// explained reports whether rows explain a difference, and whether the documents are not the same afterwards.
func (c *contest) explained(before []step, st step, ours, theirs answer) (ok, differ bool) {
	if d, ok := c.find(before, st, ours.said, theirs.said); ok {
		return true, d.differ
	}
	if ours.paths == nil || theirs.paths == nil {
		return false, false
	}
	return c.explainedByPath(before, st, ours, theirs)
}

const done = "0x00" // what say begins with for a success

// explainedByPath takes each path of a command for several as a command of its own. In a mutation the first difference
// decides, for its paths meet what those before have made.
func (c *contest) explainedByPath(before []step, st step, ours, theirs answer) (ok, differ bool) {
	lookup := st.op == memd.OpSubdocMultiLookup
	for i := range min(len(ours.paths), len(theirs.paths)) {
		if a, b := ours.paths[i], theirs.paths[i]; a == b || !lookup && (a == done && strings.HasPrefix(b, done) ||
			b == done && strings.HasPrefix(a, done)) { // a mutation that fails tells no values
			continue
		}
		one := st
		p := st.specs[i]
		one.op, one.path, one.value, one.create, one.attr = p.op, p.path, p.value, p.create, p.attr
		if _, ok = c.find(before, one, ours.paths[i], theirs.paths[i]); !ok {
			return false, false
		}
		if !lookup {
			return true, true
		}
	}
	a, b := aboutCAS.FindString(ours.said), aboutCAS.FindString(theirs.said)
	if lookup && a != b {
		_, ok = c.find(before, st, "0x00"+a, "0x00"+b)
	}
	return ok, false
}

// differs runs a program on both and gives the first step that they answer in two ways which no row explains, or -1.
func (c *contest) differs(t *testing.T, program []step) (at int, our, their string) {
	t.Helper()
	c.count++
	for _, s := range []*subject{c.ours, c.theirs} { // each program has its time, however many there are
		s.begin(fmt.Sprint(c.keys, c.count))
	}
	since := map[int]int{}
	answered := -1
	defer func() {
		if answered < len(program)-1 && at < 0 {
			t.Logf("one of the two has ended, or cannot be understood, at the last of\n%v", program[:answered+2])
		}
	}()
	at = -1
	for i, st := range program {
		a, b := c.ours.say(st), c.theirs.say(st)
		answered = i
		if a.said == b.said {
			continue
		}
		before := slices.Clone(program[since[st.key]:i])
		before = slices.DeleteFunc(before, func(b step) bool { return b.key != st.key && b.passes == 0 })
		ok, differ := c.explained(before, st, a, b)
		if !ok {
			return i, a.said, b.said
		}
		if differ { // another document goes on in its place
			c.ours.renew(st.key)
			c.theirs.renew(st.key)
			since[st.key] = i + 1
		}
	}
	return -1, "", ""
}

// ledger has the rows that programs have met.
type ledger map[string]bool

// mark is what a ledger knows a row by.
func (d *difference) mark() string { return d.topic + ": " + d.why }

// complete fails for each row of the kinds that no program of any kind has met.
func (l ledger) complete(t *testing.T, kinds []trial) {
	t.Helper()
	for _, kind := range kinds {
		for _, d := range kind.known {
			require.True(t, d.stray || l[d.mark()], "no program met this difference: %s", d.mark())
		}
	}
}

// compare runs programs on a mock and on another server and fails for each difference that no row explains.
func compare(t *testing.T, theirs server, kind trial, met ledger) {
	t.Helper()
	nodes := max(1, kind.nodes)
	node := mock.Start(t, mock.Nodes(nodes), mock.Replicas(min(1, nodes-1)), mock.Bucket("default", 64))
	ours := server{
		dial: func(n int) *raw { return loginAt(t, node, n, kind.features...) },
		pass: func(seconds int) { node.TimeTravel(time.Duration(seconds) * time.Second) },
	}
	c := &contest{
		ours: newSubject(ours, nodes), theirs: newSubject(theirs, nodes), keys: kind.keys,
		known: slices.Concat(kind.known, kind.also), met: met,
	}
	found := 0
	for seed := range uint64(programs) {
		if found == findings {
			break
		}
		random := rand.New(rand.NewPCG(seed, 42))
		program := make([]step, stepsEach)
		for i := range program {
			program[i] = kind.next(random)
		}
		at, our, their := c.differs(t, program)
		if at < 0 {
			continue
		}
		program = program[:at+1]
		for i := 0; i < len(program)-1; { // leave out what the difference does not need
			shorter := slices.Delete(slices.Clone(program), i, i+1)
			if n, a, b := c.differs(t, shorter); n == len(shorter)-1 {
				program, our, their = shorter, a, b
				continue
			}
			i++
		}
		found++
		t.Errorf("seed %d: the mock says %s, the other server %s, to the last of\n%v", seed, our, their, program)
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
	addr := testkit.Memcached(t, false).Addr
	theirs := server{dial: func(int) *raw { return dialAt(t, addr) }}
	kinds := []trial{
		{name: "documents", keys: "k", next: documentStep, known: memcachedDiffers},
		{name: "quiet", keys: "q", next: quietStep, also: memcachedDiffers},
	}
	met := ledger{}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) { compare(t, theirs, kind, met) })
	}
	t.Run("expiry", func(t *testing.T) { compareExpiries(t, theirs, met) })
	met.complete(t, kinds)
}

func TestTheMockAnswersAsCouchbaseMock(t *testing.T) {
	known := slices.Concat(couchbaseMockDiffers, severalPathsDiffer)
	kinds := []trial{
		{name: "one path", keys: "k", next: pathStep, known: couchbaseMockDiffers, also: severalPathsDiffer},
		{name: "several paths", keys: "s", next: severalStep, known: severalPathsDiffer, also: couchbaseMockDiffers},
		{
			name: "locks", keys: "l", next: lockStep,
			known: slices.Concat(locksDiffer, oldLocksDiffer), also: known,
		},
		{
			name: "locks with XERROR", keys: "x", next: lockStep, features: []memd.Feature{memd.FeatureXError},
			known: slices.Concat(locksDiffer, newLocksDiffer), also: known,
		},
		{
			name: "attributes", keys: "a", next: attributeStep, features: []memd.Feature{memd.FeatureXattr},
			known: attributesDiffer, also: known,
		},
		{name: "quiet", keys: "q", next: quietStep, known: quietDiffers, also: couchbaseMockDiffers},
		{
			name: "copies", keys: "c", next: copyStep, nodes: 3, features: []memd.Feature{memd.FeatureMutationSeqno},
			known: copiesDiffer, also: slices.Concat(known, locksDiffer, oldLocksDiffer),
		},
		{
			name: "expiry", keys: "e", next: expiryStep, known: expiryDiffers,
			also: slices.Concat(known, locksDiffer, oldLocksDiffer),
		},
	}
	o := testkit.MockOptions{Nodes: 1, Replicas: -1, Buckets: []string{"default:secret"}}
	t.Run("one node", func(t *testing.T) { onCouchbaseMock(t, o, kinds) })
	o.Nodes, o.Replicas = 3, 1
	t.Run("three nodes", func(t *testing.T) { onCouchbaseMock(t, o, kinds) })
}

// onCouchbaseMock compares in all kinds that want as many nodes as there are.
func onCouchbaseMock(t *testing.T, o testkit.MockOptions, kinds []trial) {
	testkit.CouchbaseMock(t, o, func(t *testing.T, m *testkit.CouchbaseMockServer) {
		addresses, met := m.Addresses("default"), ledger{}
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(kind trial) bool { return max(1, kind.nodes) != o.Nodes })
		for _, kind := range kinds {
			t.Run(kind.name, func(t *testing.T) {
				pass := func(seconds int) { m.Command("TIME_TRAVEL", map[string]any{"Offset": seconds}) }
				dial := func(node int) *raw {
					r := dialAt(t, addresses[node])
					if kind.features != nil {
						p := r.call(helloPacket(kind.features...))
						require.Equal(t, memd.AppendFeatures(nil, kind.features...), p.Value)
					}
					require.Equal(t, memd.StatusSuccess, r.call(saslPlainPacket("default", "secret")).Status)
					return r
				}
				compare(t, server{dial: dial, pass: pass}, kind, met)
			})
		}
		met.complete(t, kinds)
	})
}
