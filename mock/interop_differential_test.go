package mock_test

import (
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
	programs  = 2000 // of each kind
	stepsEach = 30
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
	known    []difference // each of them is to be met
	also     []difference // of another kind; each may be met
}

// inOrder is a text with its bytes in order.
func inOrder(text string) string { return string(slices.Sorted(slices.Values([]byte(text)))) }

// contest compares two servers.
type contest struct {
	ours, theirs *subject
	known        []difference
	met          []bool
	keys         string
	count        int
}

// find explains a difference by one row.
func (c *contest) find(before []step, st step, ours, theirs string) (d *difference, ok bool) {
	i := slices.IndexFunc(c.known, func(d difference) bool { return d.explains(before, st, ours, theirs) })
	if i < 0 {
		return nil, false
	}
	c.met[i] = true
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

// explainedByPath takes each path of a command for several as a command of its own. In a mutation the first difference
// decides, for its paths meet what those before have made.
func (c *contest) explainedByPath(before []step, st step, ours, theirs answer) (ok, differ bool) {
	lookup := st.op == memd.OpSubdocMultiLookup
	for i := range min(len(ours.paths), len(theirs.paths)) {
		if ours.paths[i] == theirs.paths[i] {
			continue
		}
		one := st
		p := st.specs[i]
		one.op, one.path, one.value, one.create = p.op, p.path, p.value, p.create
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
		require.NoError(t, s.r.nc.SetDeadline(time.Now().Add(patience)))
	}
	since := map[int]int{}
	for i, st := range program {
		a, b := c.ours.say(st), c.theirs.say(st)
		if a.said == b.said {
			continue
		}
		before := slices.Clone(program[since[st.key]:i])
		before = slices.DeleteFunc(before, func(b step) bool { return b.key != st.key })
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

// compare runs programs on a mock and on another server and fails for each difference that no row explains.
func compare(t *testing.T, theirs *raw, kind trial) {
	t.Helper()
	node := mock.Start(t, mock.Nodes(1), mock.Replicas(0), mock.Bucket("default", 64))
	ours := login(t, node, kind.features...)
	c := &contest{
		ours: &subject{r: ours}, theirs: &subject{r: theirs}, keys: kind.keys,
		known: slices.Concat(kind.known, kind.also),
	}
	c.met = make([]bool, len(c.known))
	for seed := range uint64(programs) {
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
		t.Errorf("seed %d: the mock says %s, the other server %s, to the last of\n%v", seed, our, their, program)
	}
	for i, d := range kind.known {
		require.True(t, c.met[i], "no program met this difference: %s: %s", d.topic, d.why)
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
	theirs := dialAt(t, testkit.Memcached(t, false).Addr)
	compare(t, theirs, trial{keys: "k", next: documentStep, known: memcachedDiffers})
}

func TestTheMockAnswersAsCouchbaseMock(t *testing.T) {
	known := slices.Concat(couchbaseMockDiffers, severalPathsDiffer)
	kinds := []trial{
		{name: "one path", keys: "k", next: pathStep, known: couchbaseMockDiffers},
		{name: "several paths", keys: "s", next: severalStep, known: severalPathsDiffer, also: couchbaseMockDiffers},
		{
			name: "locks", keys: "l", next: lockStep,
			known: slices.Concat(locksDiffer, oldLocksDiffer), also: known,
		},
		{
			name: "locks with XERROR", keys: "x", next: lockStep, features: []memd.Feature{memd.FeatureXError},
			known: slices.Concat(locksDiffer, newLocksDiffer), also: known,
		},
	}
	o := testkit.MockOptions{Nodes: 1, Replicas: -1, Buckets: []string{"default:secret"}}
	testkit.CouchbaseMock(t, o, func(t *testing.T, m *testkit.CouchbaseMockServer) {
		for _, kind := range kinds {
			t.Run(kind.name, func(t *testing.T) {
				theirs := dialAt(t, m.Addresses("default")[0])
				if kind.features != nil {
					p := theirs.call(helloPacket(kind.features...))
					require.Equal(t, memd.AppendFeatures(nil, kind.features...), p.Value)
				}
				require.Equal(t, memd.StatusSuccess, theirs.call(saslPlainPacket("default", "secret")).Status)
				compare(t, theirs, kind)
			})
		}
	})
}
