package core_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
)

// FuzzOptions: each option of connection strings takes a value, or refuses it with an error that names it; and what a
// whole connection string makes of it is a Config, or such an error.
func FuzzOptions(f *testing.F) {
	for _, s := range []string{
		"", "1", "-1", "2.5s", "9999999999h", "true", "on", "0x1", "1e400", "external", "none", "\x00%",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for o := range core.KnownOptions() {
			_, err := o.Parse(value)
			var e *core.ConnStringError
			if err != nil {
				require.ErrorAs(t, err, &e)
				require.Contains(t, err.Error(), o.Key)
			}
			if _, err := core.ParseConnString("couchbase://h?" + o.Key + "=" + value); err != nil {
				require.ErrorAs(t, err, &e)
			}
		}
	})
}
