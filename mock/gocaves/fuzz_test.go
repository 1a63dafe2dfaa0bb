package gocaves_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/gocaves"
)

// FuzzServe (F14): whatever a client writes, each packet is answered with one packet of JSON, or ends the conversation.
func FuzzServe(f *testing.F) {
	for _, packets := range []string{
		`{"type":"createcluster","id":"a"};{"type":"timetravel","cluster":"a","amount_ms":1000};`,
		`{"type":"starttesting","run":"r","client":"c"};{"type":"starttest","run":"r","test":"kv/crud/SetGet"};` +
			`{"type":"endtest","run":"r"};{"type":"endtesting","run":"r"};`,
		`{"type":"createcluster"};{"type":"addbucket","name":"b","bucket_type":"memcached","replicas":9};`,
		`{"type":"x"};`,
	} {
		f.Add([]byte(strings.ReplaceAll(packets, ";", "\x00")))
	}
	f.Add([]byte("\x00\x00{"))
	f.Fuzz(func(t *testing.T, bs []byte) {
		if bytes.Count(bs, []byte("createcluster"))+bytes.Count(bs, []byte("start")) > 4 {
			return // each makes a cluster
		}
		s := gocaves.New(mock.Virtual(), mock.VBuckets(2), mock.Services(mock.KVService))
		near, far := net.Pipe()
		done := make(chan error, 1)
		go func() {
			err := s.Serve(far)
			_ = far.Close()
			done <- err
		}()
		var out bytes.Buffer
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(&out, near)
		}()
		_, _ = near.Write(bs) // the server may have ended the conversation
		if len(bs) == 0 || bs[len(bs)-1] != 0 {
			_, _ = near.Write([]byte{0})
		}
		_ = near.Close()
		t.Log(<-done) // how the conversation ended is not judged
		<-read
		require.NoError(t, s.Close())
		for _, packet := range bytes.Split(bytes.TrimSuffix(out.Bytes(), []byte{0}), []byte{0}) {
			require.True(t, len(packet) == 0 || json.Valid(packet), "%q", packet)
		}
	})
}
