package field_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/retry"
)

// push is a notification of a cluster map; without a map it is a brief one.
func push(key string, epoch, rev uint64, raw string) memd.Packet {
	extras := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, epoch), rev)
	p := memd.Packet{
		Magic: memd.MagicServerReq, Opcode: memd.ServerOpClustermapChange, Extras: extras,
		Key: []byte(key),
	}
	if raw != "" {
		p.Datatype, p.Value = memd.DatatypeJSON, []byte(raw)
	}
	return p
}

// pushing is a cluster whose nodes send full maps, and a client that is ready.
func pushing(t testing.TB, count int) (*scripted.Cluster, *core.Cluster, *core.Bucket) {
	t.Helper()
	s := scripted.New(t, count)
	s.Features[memd.FeatureClustermapChange] = true
	c := open(t, s)
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(within(t, 5*time.Second)))
	return s, c, b
}

// toAll sends a packet on every connection.
func toAll(s *scripted.Cluster, p memd.Packet) {
	for _, n := range s.Nodes {
		for _, session := range n.Sessions() {
			session.Send(p)
		}
	}
}

// requireWorks asks the client whether its map is still the one of revision 1, after everything that was sent has been
// read.
func requireWorks(t testing.TB, b *core.Bucket) {
	t.Helper()
	for range 5 {
		require.NoError(t, upsert(t, b))
		time.Sleep(10 * time.Millisecond)
	}
	m, ok := b.Map()
	require.True(t, ok)
	require.EqualValues(t, 1, m.Rev)
	require.Equal(t, 64, m.VBuckets)
}

// A push of the whole cluster's map comes without a bucket's name. It is newer, and it is no map of the bucket.
func TestTheClustersMapDoesNotReplaceABuckets_D126(t *testing.T) {
	s, _, b := pushing(t, 2)
	toAll(s, push("", 1, 2, string(s.Render(scripted.Spec{Rev: 2}))))
	requireWorks(t, b)
}

// Nor does it when it comes under the bucket's name, in an answer, or in the place of the bucket's map.
func TestTheClustersMapComesInOtherWays_D126(t *testing.T) {
	s, _, b := pushing(t, 2)
	whole := s.Render(scripted.Spec{Rev: 2})
	toAll(s, push("default", 1, 2, string(whole)))
	requireWorks(t, b)
	for _, n := range s.Nodes {
		refused := false
		n.SetHook(func(s *scripted.Session, p *memd.Packet) bool {
			switch {
			case p.Opcode == memd.OpSet && !refused:
				refused = true
				s.ReplyTyped(p, memd.StatusNotMyVBucket, memd.DatatypeJSON, nil, whole)
				return true
			case p.Opcode == memd.OpGetClusterConfig:
				s.ReplyTyped(p, 0, memd.DatatypeJSON, nil, whole)
				return true
			}
			return false
		})
	}
	requireWorks(t, b)
	for _, n := range s.Nodes { // the handshakes bring it, too
		accepted := n.Accepted()
		n.Disconnect()
		require.Eventually(t, func() bool { return n.Accepted() > accepted }, 5*time.Second, time.Millisecond)
	}
	require.NoError(t, b.WaitReady(within(t, 5*time.Second)))
	requireWorks(t, b)
}

func TestAnotherBucketsMapDoesNotReplaceOurs_D126(t *testing.T) {
	s, _, b := pushing(t, 2)
	other := string(s.Render(scripted.Spec{Rev: 2, Bucket: "other", UUID: "bbbb", VBuckets: 8}))
	toAll(s, push("other", 1, 2, other))
	requireWorks(t, b)
	toAll(s, push("default", 1, 3, other))
	requireWorks(t, b)
	asked := s.Nodes[0].Requests(memd.OpGetClusterConfig) + s.Nodes[1].Requests(memd.OpGetClusterConfig)
	toAll(s, push("other", 1, 9, ""))
	requireWorks(t, b)
	require.Equal(t, asked, s.Nodes[0].Requests(memd.OpGetClusterConfig)+s.Nodes[1].Requests(memd.OpGetClusterConfig),
		"a version of another bucket's map is no sign of one of ours")
}

// A newer map without vbuckets, as a node may have for a moment, does not replace one that works. It is said, and the
// nodes are asked again.
func TestAMapWithoutVBucketsDoesNotReplaceOneThatHasThem_D126(t *testing.T) {
	for name, spec := range map[string]scripted.Spec{
		"no rows":        {Rev: 2},
		"no map":         {Rev: 2, NoMap: true},
		"no active copy": {Rev: 2, Row: func(int) []int { return []int{-1} }},
	} {
		t.Run(name, func(t *testing.T) {
			s, c, b := pushing(t, 2)
			spec.Bucket = "default"
			raw := string(s.Render(spec))
			if name == "no rows" {
				begin := strings.Index(raw, `"vBucketMap":[`) + len(`"vBucketMap":[`)
				end := strings.Index(raw[begin:], "]]") + begin + 1
				raw = raw[:begin] + raw[end:]
			}
			asked := s.Nodes[0].Requests(memd.OpGetClusterConfig) + s.Nodes[1].Requests(memd.OpGetClusterConfig)
			toAll(s, push("default", 1, 2, raw))
			requireWorks(t, b)
			require.Eventually(t, func() bool {
				return s.Nodes[0].Requests(memd.OpGetClusterConfig)+s.Nodes[1].Requests(memd.OpGetClusterConfig) > asked
			}, 5*time.Second, 10*time.Millisecond, "asked again")
			text, err := json.Marshal(c.Diagnostics())
			require.NoError(t, err)
			require.Contains(t, string(text), "vbucket")

			toAll(s, push("default", 1, 3, string(s.Render(scripted.Spec{Rev: 3, Bucket: "default"}))))
			require.Eventually(t, func() bool { m, _ := b.Map(); return m.Rev == 3 }, 5*time.Second,
				10*time.Millisecond)
			require.NoError(t, upsert(t, b))
			text, err = json.Marshal(c.Diagnostics())
			require.NoError(t, err)
			require.NotContains(t, string(text), "vbucket", "it is over")
		})
	}
}

// A node that goes on giving a map that is refused is not asked in a loop.
func TestARefusedMapIsNotAskedForInALoop_D126(t *testing.T) {
	s, _, b := pushing(t, 1)
	s.Map = func(_ *scripted.Node, bucket string) []byte {
		return s.Render(scripted.Spec{Bucket: bucket, Rev: 2, NoMap: true})
	}
	toAll(s, push("default", 1, 2, string(s.Render(scripted.Spec{Rev: 2, Bucket: "default", NoMap: true}))))
	asked := s.Nodes[0].Requests(memd.OpGetClusterConfig)
	time.Sleep(time.Second)
	require.LessOrEqual(t, s.Nodes[0].Requests(memd.OpGetClusterConfig)-asked, 3)
	require.NoError(t, upsert(t, b))
}

// A map that cannot be used is named with its reason, wherever one would look for it.
func TestARefusedMapIsNamed_D126(t *testing.T) {
	port := func(n *scripted.Node) string { return fmt.Sprintf(`{"kv":"%d"}`, n.Port()) }
	for name, c := range map[string]struct {
		spec scripted.Spec
		want string
	}{
		"a port that is text":   {scripted.Spec{Services: port}, "port of kv"},
		"another bucket":        {scripted.Spec{Bucket: "other"}, `"other"`},
		"the whole cluster":     {scripted.Spec{Bucket: "-"}, "whole cluster"},
		"the same member twice": {scripted.Spec{Extra: `,"rev":7`}, `"rev"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted.New(t, 1)
			s.Map = func(_ *scripted.Node, bucket string) []byte {
				spec := c.spec
				switch spec.Bucket {
				case "":
					spec.Bucket = bucket
				case "-":
					spec.Bucket = ""
				}
				return s.Render(spec)
			}
			cl := open(t, s)
			b := cl.Bucket("default")
			err := b.WaitReady(within(t, 300*time.Millisecond))
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, s.Nodes[0].Addr())
			var refused *core.MapError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, s.Nodes[0].Addr(), refused.Addr)

			_, err = kv.Do(within(t, 2*time.Second), b, kv.Upsert{
				Key:    []byte("k"),
				Common: kv.Common{Timeout: 300 * time.Millisecond},
			})
			require.ErrorContains(t, err, c.want)
			_, err = kv.Do(within(t, 2*time.Second), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: failOnce}})
			require.ErrorContains(t, err, c.want)
			require.ErrorAs(t, err, &refused)
			info, ok := retry.InfoOf(err)
			require.True(t, ok)
			require.Equal(t, retry.NotReady, info.Reason)

			text, err := json.Marshal(cl.Diagnostics())
			require.NoError(t, err)
			require.Contains(t, string(text), strings.Trim(c.want, `"`))
		})
	}
}

// A newer map that is refused while the older one sends calls to a node that does not take them any more is in their
// errors.
func TestACallThatNeedsTheRefusedMapNamesIt_D126(t *testing.T) {
	s, _, b := pushing(t, 1)
	newer := s.Render(scripted.Spec{Rev: 2, Bucket: "default", Services: func(*scripted.Node) string { return `{"kv":70000}` }})
	s.Nodes[0].SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		if p.Opcode != memd.OpSet {
			return false
		}
		s.ReplyTyped(p, memd.StatusNotMyVBucket, memd.DatatypeJSON, nil, newer)
		return true
	})
	_, err := kv.Do(within(t, 2*time.Second), b, kv.Upsert{
		Key:    []byte("k"),
		Common: kv.Common{Timeout: 300 * time.Millisecond},
	})
	require.ErrorContains(t, err, "port of kv")
	var refused *core.MapError
	require.ErrorAs(t, err, &refused)
	var ke *kv.Error
	require.ErrorAs(t, err, &ke)
	require.Equal(t, memd.StatusNotMyVBucket, ke.Status)
}

// Maps over HTTP are judged, and named, as those over connections.
func TestARefusedMapOverHTTPIsNamed_D126(t *testing.T) {
	for name, c := range map[string]struct{ raw, want string }{
		"not readable":      {`{"rev":1,"name":"default","uuid":"u","nodes":[{}],"nodesExt":[{"services":{"kv":"1"}}]}`, "port of kv"},
		"the whole cluster": {`{"rev":1,"nodesExt":[{"services":{"kv":1}}]}`, "whole cluster"},
		"no JSON":           {`<html>`, "document"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/pools/default/bs/") {
					_, _ = fmt.Fprintf(w, "%s\n\n\n\n", c.raw)
					w.(http.Flusher).Flush()
					<-r.Context().Done()
					return
				}
				_, _ = fmt.Fprint(w, c.raw)
			}))
			t.Cleanup(server.Close)
			cl := openConfig(t, core.Config{
				Seeds: core.SeedConfig{HTTPHosts: []string{server.Listener.Addr().String()}},
				Net:   core.NetConfig{NodeFilter: core.AnyNode},
				Maps:  core.MapConfig{Bootstrap: core.BootstrapHTTP},
			})
			b := cl.Bucket("default")
			require.ErrorContains(t, b.WaitReady(within(t, 500*time.Millisecond)), c.want)
			_, err := kv.Do(within(t, 2*time.Second), b, kv.Upsert{
				Key:    []byte("k"),
				Common: kv.Common{Timeout: 300 * time.Millisecond},
			})
			require.ErrorContains(t, err, c.want)
			require.NoError(t, cl.Close())
		})
	}
}

// A call that still had hope for a map of another node names the one that was refused, too, when its time is over.
func TestAnExpiredCallNamesTheRefusedMap_D126(t *testing.T) {
	s := scripted.New(t, 2)
	s.Map = func(_ *scripted.Node, bucket string) []byte {
		return s.Render(scripted.Spec{Bucket: bucket, Services: func(*scripted.Node) string { return `{"kv":true}` }})
	}
	s.Nodes[1].SetHook(func(*scripted.Session, *memd.Packet) bool { return true }) // it never answers
	b := open(t, s).Bucket("default")
	_, err := kv.Do(within(t, 2*time.Second), b, kv.Upsert{
		Key:    []byte("k"),
		Common: kv.Common{Timeout: 300 * time.Millisecond},
	})
	require.ErrorContains(t, err, "port of kv")
	require.ErrorContains(t, err, s.Nodes[0].Addr())
}
