package retry_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
)

// FuzzParse: a name is a reason's, and a pushback is a delay that is not negative or none.
func FuzzParse(f *testing.F) {
	for r := range retry.All() {
		f.Add(r.String())
	}
	for _, s := range []string{"", "-1", "007", "2147483648", "15", "kv_locked"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := retry.Parse(s); err == nil {
			require.True(t, strings.EqualFold(r.String(), s))
		}
		d, named := retry.ParsePushback(s).After()
		require.NotEqual(t, named, retry.ParsePushback(s).Never())
		require.GreaterOrEqual(t, d, 0*d)
	})
}
