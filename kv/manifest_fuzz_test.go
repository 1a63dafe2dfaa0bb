package kv_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
)

// FuzzManifest: a manifest of a node or of the cluster manager is refused, or has as many scopes as it names.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"uid":"1f","scopes":[{"name":"_default","uid":"0","collections":[{"name":"_default","uid":"0"}]}]}`))
	f.Add([]byte(`{"uid":"1","scopes":[{"uid":"ffffffff","collections":[{"uid":"8","maxTTL":-1,"history":true}]}]}`))
	f.Add([]byte(`{"uid":"10000000000000000"}`))
	f.Add([]byte(`{"scopes":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m kv.Manifest
		if json.Unmarshal(raw, &m) != nil {
			return
		}
		var names struct {
			Scopes []json.RawMessage `json:"scopes"`
		}
		require.NoError(t, json.Unmarshal(raw, &names))
		require.Len(t, m.Scopes, len(names.Scopes))
	})
}

// FuzzParseMacroCAS: what is accepted is a number of 64 bits in hex.
func FuzzParseMacroCAS(f *testing.F) {
	f.Add(`"0x000058a71dd25c15"`)
	f.Add(`0x`)
	f.Fuzz(func(t *testing.T, text string) {
		if cas, ok := kv.ParseMacroCAS(text); !ok {
			require.Zero(t, cas)
		}
	})
}
