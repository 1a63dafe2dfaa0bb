package mock

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

// neverGranted are the features with a name that no release of the table grants, and why.
var neverGranted = map[memd.Feature]string{
	memd.FeatureDatatype:       "retired",
	memd.FeatureTLS:            "known, and not supported",
	memd.FeatureMutateWithMeta: "newer",
	memd.FeatureDCPSkipDeletes: "newer",
}

// TestTheTableOfReleasesIsComplete needs a row for each feature and each fact, in their order, and sane spans.
func TestTheTableOfReleasesIsComplete(t *testing.T) {
	last := memd.Feature(0)
	granted := map[memd.Feature]bool{}
	for _, row := range helloRows {
		require.Greater(t, row.what, last, "in the order of their numbers")
		last = row.what
		granted[row.what] = true
		sane(t, row.what, row.since, row.until)
	}
	for f := range memd.Feature(0x100) {
		if f.Known() {
			require.NotEqual(t, granted[f], neverGranted[f] != "", "%v: a row or a reason", f)
		}
	}
	require.Len(t, factRows, int(factCount))
	for i, row := range factRows {
		require.Equal(t, fact(i), row.what, "one row for each, in their order")
		sane(t, row.what, row.since, row.until)
	}
	for _, row := range commandRows {
		require.True(t, row.what.Known(), row.what)
		require.Greater(t, row.since, always, "%v: a row is for what not all releases know", row.what)
		sane(t, row.what, row.since, row.until)
	}
	for _, row := range capabilityRows {
		sane(t, row.what, row.since, row.until)
	}
	for _, row := range serviceRows {
		sane(t, row.what, row.since, row.until)
	}
	for _, row := range errorMapRevisions {
		sane(t, row.what, row.since, row.until)
	}
}

// sane checks that a row holds for one of the releases at least.
func sane(t *testing.T, what any, since, until release) {
	t.Helper()
	x := row[any]{what, since, until}
	held := 0
	for _, r := range releases {
		if x.holds(r) || x.holds(r.line()) {
			held++
		}
	}
	require.Positive(t, held, "%v holds for no release", what)
}

// TestNoRowIsThereTwice compares rows of the same subject: their spans do not overlap.
func TestNoRowIsThereTwice(t *testing.T) {
	for _, r := range releases {
		seen := map[any]bool{}
		note := func(what any) {
			require.False(t, seen[what], "%v: %v twice", r, what)
			seen[what] = true
		}
		for _, x := range capabilityRows {
			note(x.what)
		}
		for _, x := range serviceRows {
			note(x.what)
		}
		for _, x := range commandRows {
			note(x.what)
		}
		for _, x := range errorRows {
			if x.holds(r) {
				note(x.what.code)
			}
		}
		revisions := 0
		for _, x := range errorMapRevisions {
			if x.holds(r) {
				revisions++
			}
		}
		require.Equal(t, 1, revisions, r)
	}
}

// TestReleasesDiffer compares each release with the one before.
func TestReleasesDiffer(t *testing.T) {
	for i := 1; i < len(releases); i++ {
		a, b := newProfile(releases[i-1]), newProfile(releases[i])
		a.release = b.release
		require.False(t, reflect.DeepEqual(a, b), releases[i])
	}
	require.Equal(t, v66, releases[0].line())
	for i := 1; i < len(releases); i++ {
		require.Greater(t, releases[i].line(), releases[i-1].line())
	}
}
