package chaos

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// What a document of a worker's own may not have, and what it may.
func TestADocumentOfAWorkersOwnIsJudged(t *testing.T) {
	parts := map[string]outcome{"first": applied, "a": applied, "b": refused, "c": doubtful}
	for _, c := range []struct {
		kind   ownKind
		value  string
		behind bool
		want   string
	}{
		{text, "first;a;", false, ""},
		{text, "c;first;a;", false, ""},
		{text, "first;", false, "P3"},
		{text, "first;", true, ""},
		{text, "first;a;a;", false, "P2"},
		{text, "first;a;a;", true, "P2"},
		{text, "first;a;b;", false, "P4"},
		{text, "first;a;d;", false, "P5"},
		{array, `["first","a"]`, false, ""},
		{array, `["first","a","c"]`, false, ""},
		{array, `["a"]`, false, "P3"},
		{array, `["first","a","c","c"]`, false, "P2"},
		{register, "a", false, ""},
		{register, "c", false, ""},
		{register, "first", false, "P3"},
		{register, "first", true, ""},
		{register, "b", false, "P4"},
		{register, "d", false, "P5"},
		{register, "", false, "P5"},
	} {
		o := &own{kind: c.kind, key: "k", parts: parts, set: "a"}
		property, _, what := o.wrong([]byte(c.value), c.behind)
		require.Equal(t, c.want, property, "%q: %s", c.value, what)
	}
}

// What the log has of a mutation is what its caller tells of it.
func TestAMutationIsKnownInTheLog(t *testing.T) {
	head := "\xcb\x00\x00\x00\x00\x00\x00\x07"
	for want, a := range map[string]mock.Applied{
		"k":  {Opcode: memd.OpSet, Key: "k", Token: "t"},
		"+t": {Opcode: memd.OpAppend, Key: "k", Token: string(text.part("t"))},
		"+u": {Opcode: memd.OpPrepend, Key: "k", Token: string(text.part("u"))},
		"+v": {Opcode: memd.OpSubdocMultiMutation, Key: "k", Token: head + string(array.part("v"))},
		"=t": {Opcode: memd.OpReplace, Key: "k", Token: string(register.part("t"))},
		"-k": {Opcode: memd.OpDelete, Key: "k"},
		"~k": {Opcode: memd.OpTouch, Key: "k"},
	} {
		require.Equal(t, want, identity(a))
	}
}

// A run that is to meet everything says what it has not met: a scenario, TCP or TLS, a kind of call, a fault.
func TestAReportSaysWhatWasNotMet(t *testing.T) {
	whole := func() *Report {
		r := newReport(1)
		for i, s := range scenarios {
			name := s.name
			if i%2 == 1 {
				name += overTLS
			}
			r.Scenarios[name] = 1
		}
		for _, verb := range verbs() {
			r.Verbs[verb] = 1
		}
		for _, f := range nodeFaults {
			r.Faults[f.name] = 1
		}
		for _, f := range clusterFaults {
			r.Faults[f.name] = 1
		}
		for _, c := range changes {
			r.Faults[c.name] = 1
		}
		for _, name := range []string{
			faultSlow, faultFull, faultMemory, faultNoDescriptor, faultCancelled, faultClosed,
		} {
			r.Faults[name] = 1
		}
		for _, name := range []string{
			string(applied), string(refused), "in doubt, applied 0 times", "in doubt, applied 1 times",
		} {
			r.Reached[name] = 1
		}
		return r
	}
	for _, c := range []struct {
		rounds int
		change func(r *Report)
		want   []string
	}{
		{len(scenarios), func(*Report) {}, []string{}},
		{len(scenarios), func(r *Report) { delete(r.Scenarios, "load") }, []string{"load"}},
		{len(scenarios), func(r *Report) { delete(r.Verbs, "touch") }, []string{"touch"}},
		{len(scenarios), func(r *Report) { delete(r.Faults, changes[0].name) }, []string{changes[0].name}},
		{len(scenarios), func(r *Report) {
			for _, s := range scenarios {
				delete(r.Scenarios, s.name+overTLS)
				r.Scenarios[s.name] = 1
			}
		}, []string{roundsTLS}},
		{2 * len(scenarios), func(r *Report) {
			for _, s := range scenarios[1:] {
				r.Scenarios[s.name], r.Scenarios[s.name+overTLS] = 1, 1
			}
		}, []string{"load over TLS"}},
	} {
		r := whole()
		c.change(r)
		r.finish(0, c.rounds, true)
		require.Equal(t, c.want, r.NotReached)
	}
}

// A fault counts when a request or a connection has met it, and not when it was made.
func TestAFaultCountsWhenItWasMet(t *testing.T) {
	m := mock.Start(t, mock.Nodes(nodes), mock.Bucket(bucketName, vbuckets), mock.Virtual())
	r := newReport(1)
	for _, f := range clusterFaults {
		end := f.act(m, rand.New(rand.NewPCG(1, 2)))
		r.fired(f.name, end())
	}
	require.Equal(t, map[string]int{"a vbucket moves": 1, "the cluster closes connections": 1}, r.Faults)
	require.NoError(t, m.Close())
	r.fired("a vbucket moves", clusterFaults[0].act(m, rand.New(rand.NewPCG(1, 2)))())
	require.Equal(t, 1, r.Faults["a vbucket moves"], "the cluster is closed")
}
