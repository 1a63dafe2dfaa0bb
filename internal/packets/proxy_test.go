package packets

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen keeps the records of a proxy.
type seen struct {
	mu  sync.Mutex
	all []Record
}

func (s *seen) add(r Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
}

// count is how many records are as they are wanted.
func (s *seen) count(want func(r *Record) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.all {
		if want(&s.all[i]) {
			n++
		}
	}
	return n
}

func proxyOf(t *testing.T, node string) (addr string, s *seen) {
	t.Helper()
	s = &seen{}
	p, addr, err := NewProxy(node, "127.0.0.1:0", s.add)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return addr, s
}

// TestAClientStaysBehindTheProxy: a client that has followed the maps of three nodes, through a rebalance, has talked
// to the proxy alone.
func TestAClientStaysBehindTheProxy(t *testing.T) {
	server, err := mock.New(mock.Nodes(3), mock.VBuckets(16))
	require.NoError(t, err)
	defer server.Close()
	spec, err := core.ParseSpec(server.ConnString())
	require.NoError(t, err)
	node := net.JoinHostPort(spec.Hosts[0].Host, jsonNumber(spec.Hosts[0].Port))
	addr, s := proxyOf(t, node)

	cfg, err := core.ParseConnString("couchbase://" + addr)
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	cluster, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	defer cluster.Close()
	bucket := cluster.Bucket(mock.DefaultBucket)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, bucket.WaitReady(ctx))
	const docs = 64
	write := func(value string) {
		for i := range docs {
			_, err := kv.Do(ctx, bucket, kv.Upsert{Key: []byte{'k', byte(i)}, Value: []byte(value)})
			require.NoError(t, err)
		}
	}
	write("a")
	require.NoError(t, server.RemoveNode(2))
	write("b")
	sets := s.count(func(r *Record) bool { return r.Kind == Request && r.Opcode == memd.OpSet })
	require.GreaterOrEqual(t, sets, 2*docs, "each write went through the proxy")
	require.Equal(t, sets, server.Frames(memd.OpSet), "and no other way")
	answered := s.count(func(r *Record) bool { return r.Kind == Answer && r.Opcode == memd.OpSet && r.Answered })
	require.Equal(t, sets, answered)
	require.Positive(t, s.count(func(r *Record) bool { return r.Detail == "map 1.1 of default" }))
	for _, n := range bucket.Status() {
		require.NotEqual(t, node, n.Addr)
	}
}

func jsonNumber(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

func TestMapsHaveTheProxysAddresses(t *testing.T) {
	p, first, err := NewProxy("127.0.0.1:1", "127.0.0.1:0", func(Record) {})
	require.NoError(t, err)
	defer p.Close()
	text, err := p.readdress("127.0.0.1", []byte(`{"rev":9007199254740993,"nodesExt":[
		{"services":{"kv":1,"mgmt":8091},"thisNode":true},
		{"services":{"kv":2,"kvSSL":3},"hostname":"10.0.0.2","alternateAddresses":{"external":{"hostname":"x"}}},
		{"services":{"n1ql":8093},"hostname":"10.0.0.3"}],
		"vBucketServerMap":{"serverList":["$HOST:1","10.0.0.2:2"],"vBucketMap":[[0,1]]}}`))
	require.NoError(t, err)
	var m struct {
		Rev      json.Number
		NodesExt []struct {
			Hostname           string
			Services           map[string]int
			ThisNode           bool
			AlternateAddresses any
		}
		VBucketServerMap struct {
			ServerList []string
			VBucketMap [][]int
		}
	}
	require.NoError(t, json.Unmarshal(text, &m))
	require.Equal(t, "9007199254740993", m.Rev.String())
	list := m.VBucketServerMap.ServerList
	require.Equal(t, first, list[0])
	for i, want := range list {
		require.Equal(t, want, net.JoinHostPort(m.NodesExt[i].Hostname, jsonNumber(m.NodesExt[i].Services["kv"])))
		require.Len(t, m.NodesExt[i].Services, 1)
	}
	require.NotEqual(t, list[0], list[1])
	require.True(t, m.NodesExt[0].ThisNode)
	require.Nil(t, m.NodesExt[1].AlternateAddresses)
	require.Empty(t, m.NodesExt[2].Services)
	require.Equal(t, [][]int{{0, 1}}, m.VBucketServerMap.VBucketMap)
	for _, bad := range []string{``, `[]`, `{"vBucketServerMap":{"serverList":["no port"]}}`} {
		_, err := p.readdress("127.0.0.1", []byte(bad))
		require.Error(t, err, bad)
	}
}

func TestWhatIsNotTheProtocolIsHandedOn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() { // ends with its connection
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		_, _ = io.ReadFull(c, make([]byte, 5))
		_, _ = io.WriteString(c, "bye")
	}()
	addr, s := proxyOf(t, l.Addr().String())
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "hello")
	require.NoError(t, err)
	text, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 400 Bad Request\r\n\r\nbye", string(text))
	require.Positive(t, s.count(func(r *Record) bool { return r.Kind == Note }))
}

func TestANodeThatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	node := l.Addr().String()
	require.NoError(t, l.Close())
	addr, s := proxyOf(t, node)
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.ReadAll(c)
	require.NoError(t, err, "the proxy hangs up")
	require.Eventually(t, func() bool {
		return s.count(func(r *Record) bool { return r.Kind == Note && r.Node == node }) == 1
	}, 10*time.Second, time.Millisecond)
}
