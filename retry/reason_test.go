package retry_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
)

func lines(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// TestReasonTable compares the six flags and the kind of every reason with a reviewed file. Proves CB-37, CB-39 and
// SM-5.
func TestReasonTable(t *testing.T) {
	mark := func(set bool, name string) string {
		if set {
			return name
		}
		return "-"
	}
	var got []string
	for r := range retry.All() {
		got = append(got, strings.Join([]string{
			r.String(), mark(r.AllowsNonIdempotent(), "nonidem"), mark(r.AlwaysRetry(), "always"),
			mark(r.Unseen(), "unseen"),
			mark(r.Terminal(), "terminal"), mark(r.Fault(), "fault"), mark(r.Overload(), "overload"), r.Kind().String(),
		}, " "))
	}
	require.Equal(t, lines(t, "reasons.golden"), got)
}

// TestReasonsOfTheRFC compares the first two flags with the rows of Couchbase SDK RFC 0049. Where the RFC says "todo"
// the flags are (true, false). Proves CB-37.
func TestReasonsOfTheRFC(t *testing.T) {
	rows := lines(t, "rfc0049-reasons.txt")
	require.Len(t, rows, 25)
	for _, row := range rows {
		f := strings.Fields(row)
		require.Len(t, f, 3)
		r, err := retry.Parse(f[0])
		require.NoError(t, err)
		want := fmt.Sprintf("%s %s", f[1], f[2])
		if want == "todo todo" {
			want = "true false"
		}
		require.Equal(t, want, fmt.Sprintf("%v %v", r.AllowsNonIdempotent(), r.AlwaysRetry()), f[0])
	}
}

func TestReasonNames(t *testing.T) {
	for r := range retry.All() {
		p, err := retry.Parse(strings.ToLower(r.String()))
		require.NoError(t, err)
		require.Equal(t, r, p)
		require.Less(t, uint8(r), uint8(64), "a set is one word")
	}
	_, err := retry.Parse("KV_NO_SUCH_REASON")
	require.ErrorContains(t, err, "KV_NO_SUCH_REASON")
	beyond := retry.Reason(200)
	require.Equal(t, "REASON_200", beyond.String())
	require.False(t, beyond.AllowsNonIdempotent() || beyond.AlwaysRetry())
	require.Equal(t, retry.ServerSide, beyond.Kind())
}

func TestReasonSet(t *testing.T) {
	var s retry.Reasons
	require.Empty(t, slices.Collect(s.All()))
	s = s.With(retry.KVLocked).With(retry.Unknown).With(retry.CredentialsFetchFailed).With(retry.KVLocked)
	require.Equal(t, []retry.Reason{retry.Unknown, retry.KVLocked, retry.CredentialsFetchFailed},
		slices.Collect(s.All()))
	require.True(t, s.Has(retry.KVLocked))
	require.False(t, s.Has(retry.TLSError))
	require.False(t, s.With(retry.Reason(64)).Has(retry.Reason(64)))
	require.Equal(t, "UNKNOWN,KV_LOCKED,CREDENTIALS_FETCH_FAILED", s.String())
	for range s.All() {
		break // stops the iterator early
	}
	for range retry.All() {
		break
	}
}

func TestNamesOfKindsStagesAndPhases(t *testing.T) {
	require.Equal(t, "throttling", retry.Throttling.String())
	require.Equal(t, "kind(9)", retry.Kind(9).String())
	for s, name := range map[fmt.Stringer]string{
		retry.StageNone: "none", retry.StageDispatch: "dispatch", retry.StageNetwork: "network",
		retry.StageResponse: "response",
		retry.PhaseLocal:    "local", retry.PhaseWire: "wire", retry.PhaseDeciding: "deciding",
		retry.PhaseParked: "parked",
		retry.PhaseDone:   "done",
	} {
		require.Equal(t, name, s.String())
	}
}
