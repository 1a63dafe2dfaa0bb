package gocaves_test

import (
	"bufio"
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/gocaves"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is the other end of the protocol.
type client struct {
	t  testing.TB
	nc net.Conn
	r  *bufio.Reader
}

// served is a client that a server has said hello to.
func served(t *testing.T) *client {
	t.Helper()
	s := gocaves.New(mock.VBuckets(16))
	near, far := net.Pipe()
	done := make(chan error, 1)
	go func() { // until the client's end is closed
		err := gocaves.Hello(far)
		if err == nil {
			err = s.Serve(far)
		}
		_ = far.Close()
		done <- err
	}()
	t.Cleanup(func() {
		_ = near.Close()
		if err := <-done; err != nil {
			t.Log(err) // of a packet that was none
		}
		require.NoError(t, s.Close())
	})
	require.NoError(t, near.SetDeadline(time.Now().Add(30*time.Second)))
	c := &client{t, near, bufio.NewReader(near)}
	require.Equal(t, map[string]any{"type": "hello"}, c.read())
	return c
}

func (c *client) read() (out map[string]any) {
	c.t.Helper()
	b, err := c.r.ReadBytes(0)
	require.NoError(c.t, err)
	require.NoError(c.t, json.Unmarshal(b[:len(b)-1], &out))
	return out
}

func (c *client) call(packet string) map[string]any {
	c.t.Helper()
	_, err := c.nc.Write(append([]byte(packet), 0))
	require.NoError(c.t, err)
	return c.read()
}

// A client makes clusters, adds buckets and moves the time, in gocaves' words.
func TestClustersOfAClient(t *testing.T) {
	c := served(t)
	got := c.call(`{"type":"createcluster","id":"c1"}`)
	require.Equal(t, "createdcluster", got["type"])
	require.Len(t, got["mgmt_addrs"], 2)
	require.Regexp(t, `^couchbase://127\.0\.0\.1:\d+,127\.0\.0\.1:\d+$`, got["connstr"])
	require.Equal(t, "addedbucket", c.call(
		`{"type":"addbucket","cluster":"c1","name":"more","bucket_type":"couchbase","replicas":1}`)["type"])
	require.Equal(t, "timetravelled", c.call(`{"type":"timetravel","cluster":"c1","amount_ms":1000}`)["type"])
	require.Equal(t, "timetravelled", c.call(`{"type":"timetravel","run":"none","amount_ms":1000}`)["type"])
}

// A run has a cluster, its tests have what their names stand for, and its report says how they ended.
func TestARunOfTests(t *testing.T) {
	c := served(t)
	run := c.call(`{"type":"starttesting","run":"r","client":"me"}`)
	require.Equal(t, "startedtesting", run["type"])
	require.NotEmpty(t, run["connstr"])
	start := func(name string) map[string]any {
		return c.call(`{"type":"starttest","run":"r","test":"` + name + `"}`)
	}
	got := start("kv/crud/SetGet")
	require.Equal(t, map[string]any{
		"type": "startedtest", "connstr": run["connstr"],
		"bucket": "default", "scope": "_default", "collection": "_default",
	}, got)
	setAndGet(t, got["connstr"].(string))
	require.Equal(t, map[string]any{"type": "endedtest", "Error": ""}, c.call(`{"type":"endtest","run":"r"}`))
	got = start("kv/memcached/MemcachedBasic")
	require.Equal(t, "memd", got["bucket"])
	require.Contains(t, got["connstr"], "http://")
	c.call(`{"type":"endtest","run":"r"}`) // the client has sent nothing
	for _, name := range []string{"ErrMapConstantRetry", "ErrMapLinearRetry", "ErrMapExponentialRetry"} {
		got = start("kv/errmap/" + name)
		require.NotEmpty(t, got["connstr"])
		require.NotEqual(t, run["connstr"], got["connstr"])
	}
	require.NotEmpty(t, start("kv/error/ExtendedError")["connstr"])
	require.Empty(t, start("kv/subdoc/SubDocLookup")["connstr"], "a test without a body does not start")
	report := c.call(`{"type":"endtesting","run":"r"}`)["report"].(map[string]any)
	require.Equal(t, "me", report["client"])
	how, all := map[string]any{}, map[string]map[string]any{}
	for _, test := range report["tests"].([]any) {
		one := test.(map[string]any)
		how[one["name"].(string)], all[one["name"].(string)] = one["status"], one
	}
	packets := all["kv/crud/SetGet"]["packets"].([]any)
	require.Len(t, packets, 2)
	require.Equal(t, "SET", packets[0].(map[string]any)["commandString"])
	require.Equal(t, "dGVzdC1kb2M=", packets[1].(map[string]any)["keyBase64"])
	require.Equal(t, "failed", how["kv/memcached/MemcachedBasic"])
	require.Equal(t, []any{`no SET for the document "test-doc" came`}, all["kv/memcached/MemcachedBasic"]["logs"])
	require.Equal(t, "success", how["kv/crud/SetGet"])
	require.Equal(t, "failed", how["kv/errmap/ErrMapLinearRetry"], "another test began before its end")
	require.Nil(t, c.call(`{"type":"endtesting","run":"r"}`)["report"])
}

// setAndGet does what the test SetGet wants.
func setAndGet(t *testing.T, connString string) {
	t.Helper()
	cfg, err := core.ParseConnString(connString)
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	cluster, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	bucket := cluster.Bucket("default")
	_, err = kv.Do(t.Context(), bucket, kv.Upsert{Key: []byte("test-doc"), Value: []byte(`{}`)})
	require.NoError(t, err)
	_, err = kv.Do(t.Context(), bucket, kv.Get{Key: []byte("test-doc")})
	require.NoError(t, err)
	require.NoError(t, cluster.Close())
}

// What is no packet ends the connection.
func TestAnUnknownPacketEndsTheConnection(t *testing.T) {
	for _, packet := range []string{`{"type":"x"}`, `{`, ``} {
		c := served(t)
		_, err := c.nc.Write(append([]byte(packet), 0))
		require.NoError(t, err)
		_, err = c.r.ReadByte()
		require.Error(t, err, packet)
	}
}

func TestArguments(t *testing.T) {
	a, err := gocaves.ParseArguments([]string{"--control-port=1234"})
	require.NoError(t, err)
	require.Equal(t, &gocaves.Arguments{ControlPort: 1234}, a)
	a, err = gocaves.ParseArguments([]string{"--help"})
	require.NoError(t, err)
	require.True(t, a.Help)
	for _, args := range [][]string{{}, {"--link-addr=x:1", "--mock-only"}, {"--control-port=70000"}, {"--what"}} {
		_, err := gocaves.ParseArguments(args)
		require.Error(t, err, args)
	}
}
