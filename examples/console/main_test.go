package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/control"
)

// The console learns of an operation that failed two times: its attempts, their statuses and the reasons of retries.
func TestTheConsoleLearnsOfAttempts(t *testing.T) {
	server := mock.Start(t, mock.Nodes(2))
	api, err := control.Listen(server, "127.0.0.1:0", control.Options{Console: true})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	rq, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL()+"/console/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	events, err := http.DefaultClient.Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()

	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 2}, mock.Status(memd.StatusTmpFail))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, server.ConnString(), api.URL()) }()
	lines := bufio.NewScanner(events.Body)
	lines.Buffer(nil, 4<<20)
	var found control.Operation
	for found.Attempts == nil && lines.Scan() {
		text, _ := strings.CutPrefix(lines.Text(), "data: ")
		var told struct{ Operations []control.Operation }
		if json.Unmarshal([]byte(text), &told) != nil {
			continue // a line of another kind
		}
		for _, o := range told.Operations {
			if len(o.Attempts) > 1 {
				found = o
			}
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var got []string
	for _, a := range found.Attempts {
		got = append(got, strings.TrimSpace(a.Status+" "+a.Reason))
	}
	want := []string{"0x86 KV_TEMPORARY_FAILURE", "0x86 KV_TEMPORARY_FAILURE", ""}
	if !slices.Equal(got, want) || found.Operation != "get" || found.Client != "orders" || found.Bucket != "default" ||
		found.Collection != "_default._default" || found.Key == "" || found.Error != "" {
		t.Errorf("got %q of %+v, want %q", got, found, want)
	}
}
