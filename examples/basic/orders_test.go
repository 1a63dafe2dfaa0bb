package main

import (
	"testing"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// A test of a program that uses a cluster: reads of the order fail twice, and the client tries again.
func TestOrders(t *testing.T) {
	server := mock.Start(t, mock.Documents("default", map[string]any{"order::1": map[string]int{"total": 7}}))
	failing := server.Inject(mock.Match{Key: []byte("order::1"), Times: 2}, mock.Status(memd.StatusTmpFail))

	cfg := must(core.ParseConnString(server.ConnString()))
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	cluster := must(core.Open(t.Context(), cfg))
	defer cluster.Close()
	res := must(kv.Do(t.Context(), cluster.Bucket("default"), kv.Get{Key: []byte("order::1")}))
	if string(res.Value) != `{"total":7}` || failing.Fired() != 2 {
		t.Errorf("got %s after %d failures", res.Value, failing.Fired())
	}
}
