package sim

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Every fault of the programme is injected here or tested by a test that exists, and every injection has its fault.
func TestTheProgrammeIsComplete(t *testing.T) {
	table := programme()
	require.Len(t, table, 48)
	left := map[string]bool{}
	for _, name := range injections() {
		require.False(t, left[name], "%s is there twice", name)
		left[name] = true
	}
	known := map[string]bool{string(afterItsCall): true}
	for name := range left {
		known[name] = true
	}
	for i, row := range table {
		require.Equal(t, i+1, row.number)
		count := len(row.injections) + len(row.elsewhere)
		numbered := regexp.MustCompile(fmt.Sprintf("^%d[a-h]? ", row.number))
		for name := range left {
			if numbered.MatchString(name) {
				delete(left, name)
				count++
			}
		}
		for _, letter := range row.letters {
			variant := regexp.MustCompile(fmt.Sprintf("(^|: )%d%c ", row.number, letter))
			require.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(known)), variant.MatchString),
				"%d%c %s is not injected", row.number, letter, row.name)
		}
		for _, name := range row.injections {
			require.True(t, known[name], "%d: %s", row.number, name)
		}
		require.NotZero(t, count, "%d %s is not injected", row.number, row.name)
		for _, test := range row.elsewhere {
			dir, name, _ := strings.Cut(test, " ")
			require.True(t, hasTest(t, dir, name), "%s has no %s", dir, name)
		}
	}
	require.True(t, hasTest(t, "retry", "TestMutationGate"), "the guards of the orchestrator")
	for name := range left { // these are beside the programme
		require.Regexp(t, "^(loops|callbacks|clock jumps): ", name)
	}
}

// Runs that leave out all faults that can be named meet none of them, and what else is injected they still meet. A
// report's plan is known before its run.
func TestFaultsCanBeLeftOut(t *testing.T) {
	met := map[string]int{}
	for seed := range uint64(12) {
		o := Options{Seed: 1 + seed, Ops: 300, Without: Faults()}
		r := Run(t, o)
		require.Equal(t, r.Plan, Plan(o))
		for name, n := range r.FaultsFired {
			require.NotContains(t, o.Without, name)
			met[name] += n
		}
	}
	require.Contains(t, met, bucketFlushed)
}

// What HELLO asks for in the runs is refused in turn, all of it.
func TestEveryFeatureIsRefused(t *testing.T) {
	o := Options{Seed: 3, Ops: 50}
	w := &world{plan: draw(o), report: newReport(o)}
	w.pushes, w.packs, w.barred = true, true, 0
	synctest.Test(t, w.run)
	var asked []memd.Feature
	for _, f := range w.facts.frames {
		for v := f.Value; f.Opcode == memd.OpHello && len(v) >= 2; v = v[2:] {
			asked = append(asked, memd.Feature(binary.BigEndian.Uint16(v)))
		}
	}
	slices.Sort(asked)
	require.ElementsMatch(t, slices.Compact(asked), hellos())
}

// The judge of P14 knows what may be logged in with.
func TestTheMechanismsThatMayBeUsed(t *testing.T) {
	for _, c := range []struct {
		p    plan
		want []string
	}{
		{plan{}, []string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1"}},
		{plan{clear: true}, []string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1", "PLAIN"}},
		{plan{tls: true}, []string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1", "PLAIN"}},
		{plan{mechanisms: []string{"PLAIN", "SCRAM-SHA1"}}, []string{"SCRAM-SHA1"}},
		{plan{mechanisms: []string{"PLAIN"}}, []string{}},
		{plan{mechanisms: []string{"PLAIN"}, tls: true}, []string{"PLAIN"}},
	} {
		require.Equal(t, c.want, c.p.logins())
	}
}

// A password in what the client says is a violation.
func TestPasswordsAreNotSaid(t *testing.T) {
	w := &world{report: newReport(Options{})}
	w.secrets.Add(mock.DefaultUser, "canary-7f")
	w.says("a text", []byte("canary-8f and Administrator"))
	require.Empty(t, w.report.Violations)
	w.says("a text", fmt.Appendf(nil, "it is %x", "canary-7f"))
	require.Len(t, w.report.Violations, 1)
	require.Equal(t, "P13", w.report.Violations[0].Property)
}

// hasTest reports whether a folder of the module has a test.
func hasTest(t *testing.T, dir, name string) bool {
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	require.NoError(t, err)
	for _, f := range files {
		src, err := os.ReadFile(f)
		require.NoError(t, err)
		if strings.Contains(string(src), "func "+name+"(") {
			return true
		}
	}
	return false
}
