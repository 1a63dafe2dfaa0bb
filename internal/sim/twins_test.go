package sim_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/sim"
)

// twins are clients with one defect each, and the properties that notice it.
var twins = map[string][]string{
	"deadlines on the wire are not kept":             {"P1"},
	"what is lost in flight is sent again":           {"P2"},
	"what has left whole counts as unsent":           {"P2", "P4"},
	"nothing is in doubt":                            {"P4"},
	"everything is in doubt":                         {"P4"},
	"the canary is not sent":                         {"P9"},
	"a silent connection stays":                      {"P9"},
	"who cannot connect tries again at once":         {"P10"},
	"the wait does not grow":                         {"P10"},
	"Close forgets the nodes":                        {"P11"},
	"the timer of a closed connection stays":         {"P11"},
	"Close leaves the meters registered":             {"P11"},
	"an ended call still counts as parked":           {"P11"},
	"an unknown opaque ends its connection":          {"P12"},
	"an unreadable value ends its connection":        {"P12"},
	"one goroutine runs all callbacks":               {"P1"},
	"any number of calls may be in flight":           {"P12"},
	"any number of calls may wait":                   {"P12"},
	"an unknown collection stays in the cache":       {"P9", "P10"},
	"any newer map replaces the one in use":          {"P9"},
	"another bucket's map replaces ours":             {"P9"},
	"a statement executed in part goes again":        {"P2"},
	"a statement executed in part just fails":        {"P4"},
	"what hangs up is connected to at once":          {"P10"},
	"a stale login is renewed at once":               {"P10"},
	"what is refused goes again at once":             {"P10"},
	"no delay is too short":                          {"P10"},
	"a scan without progress goes on at once":        {"P10"},
	"an older map replaces the one in use":           {"P8"},
	"the epoch of a map is ignored":                  {"P8"},
	"the map of a refusal is dropped":                {"P8"},
	"who waits for a connection is forgotten":        {"P9"},
	"a full connection never has room again":         {"P9"},
	"an answer goes to the present call of its slot": {"P3", "P4", "P5"},
	"durability is lost on a retry":                  {"P6"},
	"a strategy's delay is cut short":                {"P6"},
	"a read does not wait for its delay":             {"P6"},
	"a temporary failure is given up at once":        {"P6"},
	"a temporary failure is never sent again":        {"P6"},
	"who is sent elsewhere waits too long":           {"P6"},
	"who is sent elsewhere does not wait longer":     {"P6"},
	"a refusal for lack of access is temporary":      {"P6"},
	"a final refusal is sent again":                  {"P6"},
	"what the error map has retried is given up":     {"P6"},
	"a terminal cause waits for the deadline":        {"P6"},
	"a terminal cause is not told":                   {"P6"},
	"what the program names is not heard":            {"P6"},
	"what the program names has another reason":      {"P6"},
	"who waits for a way is not woken":               {"P6"},
	"who waits for a connection stays there":         {"P6"},
	"all calls have one strategy":                    {"P7"},
	"a password is in an error":                      {"P13"},
	"a span ends twice":                              {"P15"},
	"the password goes in the clear":                 {"P14"},
	"a server need not prove itself":                 {"P14"},
	"what TLS has written whole counts as unsent":    {"P2", "P4"},
	"any certificate will do":                        {"P14"},
	"a failure of TLS is for ever":                   {"P9"},
	"a failure of TLS is not told":                   {"P6"},
	"a compressed value loses its end":               {"P5"},
	"a compressed map is not read":                   {"P8", "P9"},
	"rows that are cut off count as all":             {"P5"},
	"a scan that begins anew gives all again":        {"P5"},
	"a scan ends with its first answer":              {"P5"},
	"a counter says one too many":                    {"P5"},
	"a service comes back sooner than it was told":   {"P6"},
	"every span ends well":                           {"P15"},
	"a retry counts twice":                           {"P15"},
	"a retry too many is told":                       {"P15"},
	"a service's retry is not counted":               {"P15"},
	"a connection that is given up stays":            {"P6"},
	"any number of calls may wait for a connection":  {"P12"},
	"a node that lags behind is believed":            {"P8"},
	"a refused id is taken again":                    {"P8"},
	"a change by a path may go twice":                {"P2"},
	"a lock may be taken twice":                      {"P2", "P4"},
	"a port without TLS will do when TLS fails":      {"P14"},
	"any certificate will do for a service":          {"P14"},
	"any node of a map is told the password":         {"P14"},
	"the mechanisms that are set are ignored":        {"P14"},
	"a failed request stays first in its queue":      {"P9"},
	"a node that failed is not asked again":          {"P9"},
	"a password is in the error of a service":        {"P13"},
	"a packed answer is unpacked":                    {"P12"},
	"a warning is logged as an error":                {"P16"},
	"the client panics behind a callback":            {"P16"},
}

// firstSeeds is where a twin was noticed that the first four seeds do not notice: the search begins there.
var firstSeeds = map[string]int{
	"a change by a path may go twice":               13,
	"a compressed map is not read":                  13,
	"a connection that is given up stays":           9,
	"a final refusal is sent again":                 5,
	"a full connection never has room again":        17,
	"a lock may be taken twice":                     13,
	"a node that lags behind is believed":           9,
	"a refused id is taken again":                   9,
	"a scan ends with its first answer":             13,
	"a scan that begins anew gives all again":       21,
	"a temporary failure is never sent again":       5,
	"a terminal cause is not told":                  45,
	"an ended call still counts as parked":          5,
	"any certificate will do for a service":         9,
	"any number of calls may be in flight":          13,
	"any number of calls may wait for a connection": 13,
	"everything is in doubt":                        5,
	"no delay is too short":                         17,
	"one goroutine runs all callbacks":              5,
	"the canary is not sent":                        5,
	"the epoch of a map is ignored":                 5,
	"the wait does not grow":                        9,
	"who waits for a connection stays there":        73,
}

// buildTwins builds the command with all defects in it.
func buildTwins(t *testing.T) (binary string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	sources := map[string]string{}
	for _, e := range edits {
		path := filepath.Join(root, e.file)
		if sources[path] == "" {
			src, err := os.ReadFile(path)
			require.NoError(t, err)
			sources[path] = string(src)
		}
		require.Equal(t, 1, strings.Count(sources[path], e.old), "%s: %q is where a defect belongs", e.file, e.old)
		sources[path] = strings.Replace(sources[path], e.old, e.new, 1)
		pkg := filepath.Dir(path)
		sources[filepath.Join(pkg, "broken_twin.go")] = fmt.Sprintf(twinSwitch, filepath.Base(pkg))
	}
	dir := t.TempDir()
	overlay := map[string]string{}
	for i, path := range slices.Sorted(maps.Keys(sources)) {
		file := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		require.NoError(t, os.WriteFile(file, []byte(sources[path]), 0o600))
		overlay[path] = file
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600))
	binary = filepath.Join(dir, "couchcore")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o",
		binary, "./cmd/couchcore")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return binary
}

// A change that moves a line which a twin lacks moves the twin's edit too.
func TestTwinsHaveTheirPlaces(t *testing.T) {
	for _, e := range edits {
		src, err := os.ReadFile(filepath.Join("../..", e.file))
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(src), e.old), "%s: %q is where a defect belongs", e.file, e.old)
	}
}

// A property is trusted when it has failed: for a client that lacks what keeps it.
func TestTheClientsTwinsAreNoticed(t *testing.T) {
	if os.Getenv("COUCHCORE_TWINS") == "" {
		t.Skip("builds and runs defective clients, which takes a minute or two: set COUCHCORE_TWINS=1")
	}
	binary := buildTwins(t)
	judge := func(t *testing.T, name string, first int) map[string]bool {
		c := exec.CommandContext(t.Context(), binary, "chaos", "--json", fmt.Sprint("--seed=", first), "--seeds=4",
			"--ops=20000", "--no-replay")
		c.Env = append(os.Environ(), "COUCHCORE_BROKEN="+name)
		out, _ := c.Output() // it fails when it finds something
		var totals sim.Totals
		require.NoError(t, json.Unmarshal(out, &totals), string(out))
		return totals.Noticed()
	}
	require.Empty(t, judge(t, "", 1), "the client without a defect")
	for name, properties := range twins {
		t.Run(name, func(t *testing.T) {
			require.True(t, slices.ContainsFunc(edits, func(e edit) bool { return strings.Contains(e.new, name) }),
				"no edit has it")
			all := map[string]bool{}
			for i := range 20 { // some of them need sockets that vanish where few calls go
				first := 1 + (max(firstSeeds[name], 1)-1+4*i)%80
				maps.Copy(all, judge(t, name, first))
				if slices.ContainsFunc(properties, func(p string) bool { return all[p] }) {
					t.Logf("noticed by %v, up to seed %d", slices.Sorted(maps.Keys(all)), first+3)
					return
				}
			}
			t.Errorf("not noticed by %v, but by %v", properties, slices.Sorted(maps.Keys(all)))
		})
	}
}
