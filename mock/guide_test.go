package mock_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

type order struct{ Total int }

// connect is a client of a cluster, for as long as the test runs.
func connect(t *testing.T, connString string) *core.Cluster {
	t.Helper()
	cfg, err := core.ParseConnString(connString)
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	cluster, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	return cluster
}

// TestTheGuideForTesters has what docs/testing.md shows of Go.
func TestTheGuideForTesters(t *testing.T) {
	server := mock.Start(t, mock.Nodes(3), mock.Documents("default", map[string]any{"order::1": order{Total: 7}}))
	cluster := connect(t, server.ConnString())
	server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 2}, mock.Status(memd.StatusTmpFail))
	server.Expect(t, mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Key: []byte("order::1")}, 3)
	res, err := kv.Do(t.Context(), cluster.Bucket("default"), kv.Get{Key: []byte("order::1")})
	require.NoError(t, err)
	require.JSONEq(t, `{"Total":7}`, string(res.Value))
}

// A test calls Start(t, ...) instead of New and Close.
func ExampleStart() {
	docs := map[string]any{"order::1": map[string]int{"total": 7}}
	server, err := mock.New(mock.Nodes(2), mock.Documents("default", docs))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	cfg, err := core.ParseConnString(server.ConnString())
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	cluster, err := core.Open(context.Background(), cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	failing := server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 2}, mock.Status(memd.StatusTmpFail))
	res, err := kv.Do(context.Background(), cluster.Bucket("default"), kv.Get{Key: []byte("order::1")})
	fmt.Println(string(res.Value), err, failing.Fired())
	// Output: {"total":7} <nil> 2
}
