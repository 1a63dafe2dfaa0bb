package httpsvc

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// trim takes away what the validator's caller never gives it.
func trim(s string) string { return strings.Trim(s, " \t\r\n") }

func TestValidIsWhatTheStandardLibrarySays(t *testing.T) {
	parts := []string{
		"", "{", "}", "[", "]", ",", ":", `"`, `"a"`, `"\"`, `"\\"`, `"\u00e"`, `"\u00eF"`, `"\x"`, "\"\x01\"", "\"\xff\"", "0", "-", "-0", "01", "1.",
		".5", "1.5", "1e", "1e+", "1e+9", "1E-0", "true", "tru", "false", "null", "nul", "+1", " ", "\n", "Infinity",
	}
	for _, a := range parts {
		for _, b := range parts {
			for _, c := range parts {
				for _, s := range []string{a + b + c, "[" + a + b + c + "]", `{"k":` + a + b + c + "}", "[" + a + "," + b + "]", "{" + a + ":" + b + c + "}"} {
					s = trim(s)
					require.Equal(t, json.Valid([]byte(s)), valid([]byte(s)), "%q", s)
				}
			}
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e-3,"\u00e4\n",null,true,{}]}`, `[[]]`, `"x`, `{"a" : 1 , "b":[ ]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = trim(s)
		if strings.Count(s, "[")+strings.Count(s, "{") > 1000 {
			t.Skip("the reader's limit of depth comes first")
		}
		require.Equal(t, json.Valid([]byte(s)), valid([]byte(s)), "%q", s)
	})
}
