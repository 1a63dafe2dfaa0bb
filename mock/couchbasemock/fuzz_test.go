package couchbasemock_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/couchbasemock"
)

// FuzzControl (F14): any command with any payload is answered with JSON that says whether it worked.
func FuzzControl(f *testing.F) {
	for _, name := range []string{
		"FAILOVER", "RESPAWN", "HICCUP", "TRUNCATE", "MOCKINFO", "HELP", "TIME_TRAVEL", "PERSIST", "UNPERSIST", "CACHE",
		"UNCACHE", "ENDURE", "PURGE", "KEYINFO", "OPFAIL", "SET_CCCP", "GET_MCPORTS", "REGEN_VBCOORDS",
		"RESET_QUERYSTATE", "SET_QUERY_ERROR_STATE", "START_CMDLOG", "STOP_CMDLOG", "GET_CMDLOG", "START_RETRY_VERIFY",
		"CHECK_RETRY_VERIFY", "SET_ENHANCED_ERRORS", "SET_COMPRESSION", "SET_SASL_MECHANISMS", "x",
	} {
		f.Add(name, []byte(`{}`))
		f.Add(name, []byte(`{"idx":0,"Bucket":"default","Key":"k","Value":"v","OnMaster":true,"OnReplicas":[0],"msecs":1,`+
			`"offset":5,"code":134,"count":1,"servers":[0,9],"enabled":true,"mode":"off","mechs":["PLAIN"],"opcode":1,"errcode":7}`))
	}
	f.Fuzz(func(t *testing.T, name string, payload []byte) {
		m, err := mock.New(mock.Virtual(), mock.Nodes(2), mock.VBuckets(4))
		require.NoError(t, err)
		defer func() { require.NoError(t, m.Close()) }()
		var answer struct {
			Status string `json:"status"`
		}
		out := attach(t, m).Run(name, payload)
		require.NoError(t, json.Unmarshal(out, &answer), "%s", out)
		require.Contains(t, []string{"ok", "fail"}, answer.Status)
	})
}

// FuzzReadDocs: a file that is no ZIP file, or a broken one, is refused, and no document is larger than the file says.
func FuzzReadDocs(f *testing.F) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{"docs/k.json": `{"a":1}`, "design_docs/d.json": `{"views":{}}`, "x/y": "z"} {
		w, err := z.Create(name)
		require.NoError(f, err)
		_, err = w.Write([]byte(text))
		require.NoError(f, err)
	}
	require.NoError(f, z.Close())
	f.Add(b.Bytes())
	f.Add([]byte("PK\x05\x06"))
	f.Fuzz(func(t *testing.T, file []byte) {
		fix, err := couchbasemock.ReadDocs(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.Len(t, fix.Buckets, 1)
	})
}
