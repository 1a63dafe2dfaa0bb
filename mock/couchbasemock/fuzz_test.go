package couchbasemock_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"slices"
	"testing"
	"time"

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

// FuzzControlLines (F14): each line that comes on a connection is answered with one line of JSON that says whether it
// worked, and nothing else is answered. A line that is too long ends the connection.
func FuzzControlLines(f *testing.F) {
	for _, lines := range []string{
		`{"command":"MOCKINFO","payload":{}}` + "\n" + `{"command":"get_mcports","payload":{"bucket":"default"}}` + "\n",
		`{"command":"KEYINFO","payload":{"Bucket":"default","Key":"k"}}` + "\r\n\n\nnonsense",
		`{"command":"HICCUP","payload":[]}` + "\n" + `{"command":7}` + "\n" + `{"payload":{}}` + "\n[[[[\n",
		`{"command":"FAILOVER","payload":{"idx":0}}` + "\n" + `{"command":"RESPAWN","payload":{"idx":0}}` + "\n\x00",
	} {
		f.Add([]byte(lines))
	}
	f.Fuzz(func(t *testing.T, sent []byte) { controlLines(t, sent) })
}

func TestALongControlLineEndsTheConnection(t *testing.T) {
	fits := bytes.Repeat([]byte("["), longestLine-1)
	require.Equal(t, 1, controlLines(t, fits))
	require.Zero(t, controlLines(t, append(fits, '[')))
	require.Equal(t, 1, controlLines(t, slices.Concat([]byte("{}\n["), fits, []byte("\n{}\n"))))
}

const longestLine = 1 << 20 // with its end

// controlLines sends lines to a control connection, judges the answers and gives how many there were.
func controlLines(t *testing.T, sent []byte) (answers int) {
	m, err := mock.New(mock.Virtual(), mock.Nodes(2), mock.VBuckets(4))
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	near, far := net.Pipe()
	defer func() { _ = near.Close() }()
	served, x := make(chan error, 1), attach(t, m)
	go func() { served <- x.Serve(far) }()
	require.NoError(t, near.SetDeadline(time.Now().Add(patience)))
	in := bufio.NewReader(near)
	_, err = in.ReadString(0)
	require.NoError(t, err)
	for line := range bytes.Lines(sent) {
		line = append(bytes.TrimSuffix(line, []byte("\n")), '\n')
		if _, err := near.Write(line); len(line) > longestLine {
			require.Error(t, err, "the other end reads no more")
			require.ErrorIs(t, <-served, bufio.ErrTooLong)
			return answers
		}
		require.NoError(t, err)
		out, err := in.ReadBytes('\n')
		require.NoError(t, err)
		var answer struct {
			Status string `json:"status"`
		}
		require.NoError(t, json.Unmarshal(out, &answer), "%s", out)
		require.Contains(t, []string{"ok", "fail"}, answer.Status)
		answers++
	}
	require.NoError(t, near.Close())
	require.NoError(t, <-served)
	return answers
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
