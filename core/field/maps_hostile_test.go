package field_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/query"
)

// dials counts the addresses that a client dials, and leads all of them but the known ones to a trap.
type dials struct {
	trap string

	mu    sync.Mutex
	known map[string]bool
	other []string
}

func (d *dials) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d.mu.Lock()
	known := d.known[addr]
	if !known {
		d.other = append(d.other, addr)
	}
	d.mu.Unlock()
	if !known {
		addr = d.trap
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

func (d *dials) elsewhere() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.other
}

// A host in a map is a host, and no part of a URL that leads elsewhere: wherever a map has hosts, a text that is not a
// host is refused, and nothing is sent anywhere.
func TestHostsInMapsAreHosts_D141(t *testing.T) {
	var caught atomic.Int32
	trap := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		caught.Add(1)
	}))
	t.Cleanup(trap.Close)
	for place, form := range map[string]string{
		"nodesExt": `{"rev":2,"revEpoch":1,"clusterUUID":"cu","nodesExt":[{"services":{"kv":%[1]d},"hostname":"127.0.0.1"},` +
			`{"services":{"n1ql":8093,"mgmt":8091},"hostname":"%[2]s"}]}`,
		"alternate addresses": `{"rev":2,"revEpoch":1,"clusterUUID":"cu","nodesExt":[{"services":{"kv":%[1]d},"hostname":"127.0.0.1"},` +
			`{"services":{"kv":1},"hostname":"127.0.0.2","alternateAddresses":{"default":{"hostname":"%[2]s","ports":{"n1ql":8093}},` +
			`"external":{"hostname":"%[2]s","ports":{"n1ql":8093,"mgmt":8091}}}}]}`,
		"nodes":      `{"rev":2,"nodes":[{"hostname":"%[2]s:8091","ports":{"direct":%[1]d}}]}`,
		"serverList": `{"rev":2,"vBucketServerMap":{"serverList":["127.0.0.1:%[1]d","%[2]s:8091"],"vBucketMap":[[0],[0]]}}`,
	} {
		for _, host := range []string{
			"127.0.0.3/evil/path?x=", "127.0.0.3#", "user@127.0.0.3", "127.0.0.3?", "127.0.0.3\\", "127.0.0.3%2f",
			"a b", "\u0000", "127.0.0.3:1/x",
		} {
			t.Run(place+" "+host, func(t *testing.T) {
				s := scripted.New(t, 1)
				raw := fmt.Sprintf(form, s.Nodes[0].Port(), strings.NewReplacer(`\`, `\\`, "\u0000", `\u0000`).Replace(host))
				s.Map = func(*scripted.Node, string) []byte { return []byte(raw) }
				d := &dials{trap: trap.Listener.Addr().String(), known: map[string]bool{s.Nodes[0].Addr(): true}}
				c := open(t, s, func(cfg *core.Config) {
					cfg.Net.Dial, cfg.Auth.Username, cfg.Auth.Password = d.dial, "u", core.NewSecret("secret")
					cfg.Auth.Mechanisms, cfg.Auth.AllowPlain = []string{"PLAIN"}, true
					cfg.Net.Network = "external"
					if place != "alternate addresses" {
						cfg.Net.Network = ""
					}
				})
				rows, err := c.Query(within(t, 200*time.Millisecond), &query.Request{Statement: "SELECT 1"})
				if err == nil {
					_ = rows.Close()
				}
				require.Error(t, err)
				require.Empty(t, d.elsewhere())
				require.Zero(t, caught.Load())
			})
		}
	}
}

// records is a resolver.
type records []*net.SRV

func (r records) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	return "", r, nil
}

// A target of an SRV record that is no host is not dialled.
func TestTargetsOfRecordsAreHosts_D141(t *testing.T) {
	s := scripted.New(t, 1)
	d := &dials{trap: "127.0.0.1:1", known: map[string]bool{s.Nodes[0].Addr(): true}}
	c := openConfig(t, core.Config{
		Seeds: core.SeedConfig{
			Hosts: []string{"127.0.0.1:2"},
			SRV:   "_couchbase._tcp.x",
			Resolver: records{
				{Target: "127.0.0.3/evil", Port: 11210},
				{Target: "u@h.", Port: 11210},
				{Target: "127.0.0.1", Port: uint16(s.Nodes[0].Port())},
			},
		},
		Net: core.NetConfig{NodeFilter: core.AnyNode, Dial: d.dial},
	})
	require.NoError(t, c.Bucket("default").WaitReady(within(t, 5*time.Second)))
	for _, addr := range d.elsewhere() {
		require.Equal(t, "127.0.0.1:2", addr)
	}
}

// A map with a member twice says different things to different readers: it is refused, wherever the member is.
func TestAMemberThatIsThereTwice_D141(t *testing.T) {
	for name, change := range map[string]func(*scripted.Cluster, string) string{
		"at the top":        memberChanged(`"rev":1,`, `"rev":1,"rev":2,`),
		"written otherwise": memberChanged(`"rev":1,`, `"rev":1,"\u0072ev":2,`),
		"of a node":         memberChanged(`"hostname":"127.0.0.1"`, `"hostname":"127.0.0.1","hostname":"127.0.0.9"`),
		"a port":            memberChanged(`"services":{`, `"services":{"kv":1,`),
		"of the vbuckets":   memberChanged(`"hashAlgorithm"`, `"vBucketMap":[],"hashAlgorithm"`),
		"not read":          memberChanged(`"rev":1,`, `"rev":1,"x":{"y":1,"y":2},`),
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, mapsThrough(t, 1, scripted.Spec{}, change)).Bucket("default")
			require.ErrorContains(t, b.WaitReady(within(t, 300*time.Millisecond)), "appears twice")
		})
	}
}

// refusedMap is a map of n bytes that is refused.
func refusedMap(number, n int) string {
	begin := fmt.Sprintf(`{"rev":%d,"revEpoch":1,"x":"`, number)
	return begin + strings.Repeat("x", n-len(begin)-2) + `"}`
}

// sendMaps sends maps to a client, and waits until it has read them all. It reads them faster than it looks at them.
func sendMaps(t testing.TB, s *scripted.Cluster, b *core.Bucket, n, size int) {
	t.Helper()
	session := s.Nodes[0].Sessions()[0]
	for i := range n {
		session.Send(push("default", 1, uint64(3+i), refusedMap(3+i, size)))
	}
	_, err := kv.Do(within(t, 20*time.Second), b, kv.Get{
		Key:    []byte("k"),
		Common: kv.Common{Timeout: 20 * time.Second},
	})
	require.Error(t, err) // it is not there, and the answer is behind the maps
}

// Maps that wait take no more memory together than one may, and one that is larger is not copied.
func TestMapsThatWaitAreBounded_D141(t *testing.T) {
	for name, size := range map[string]int{"within the limit": 4 << 20, "above the limit": 6 << 20} {
		t.Run(name, func(t *testing.T) {
			s := scripted.New(t, 1)
			s.Features[memd.FeatureClustermapChange] = true
			c := open(t, s, func(cfg *core.Config) { cfg.Limits.Map = 5 << 20 })
			b := c.Bucket("default")
			require.NoError(t, b.WaitReady(within(t, 5*time.Second)))
			before := heap()
			sendMaps(t, s, b, 16, size)
			grown := heap() - before
			require.Less(t, grown, int64(30<<20), "16 maps of %d MiB", size>>20)
			require.Eventually(t, func() bool { return len(c.Diagnostics().RefusedMaps) == 1 }, 5*time.Second,
				time.Millisecond)
		})
	}
}

// heap is the memory that is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What nodes that have left have said of their statuses is forgotten.
func TestErrorMapsOfNodesThatLeftAreForgotten_D141(t *testing.T) {
	const statuses, rounds = 300, 60
	var text strings.Builder
	text.WriteString(`{"version":2,"revision":1,"errors":{`)
	for i := range statuses {
		fmt.Fprintf(&text, `"%x":{"name":"E%d","desc":"%030d","attrs":["temp"]},`, 0x1000+i, i, i)
	}
	text.WriteString(`"2":{"name":"X","desc":"x","attrs":[]}}}`)
	s := scripted.New(t, 2)
	s.ErrorMap = text.String()
	s.Features[memd.FeatureClustermapChange] = true
	b := ready(t, s)
	turn := func(rev int) {
		last := s.Add(t, "127.0.0.1:0")
		toAll(s, push("default", 1, uint64(rev),
			string(s.Render(scripted.Spec{Bucket: "default", Rev: int64(rev), Live: []int{0, last.Index}}))))
		require.Eventually(t, func() bool { m, _ := b.Map(); return m.Rev == int64(rev) }, 5*time.Second,
			time.Millisecond)
		require.NoError(t, b.WaitReady(within(t, 5*time.Second)))
		if last.Index > 2 {
			gone := s.Nodes[last.Index-1]
			require.Eventually(t, func() bool { return len(gone.Sessions()) == 0 }, 20*time.Second, time.Millisecond)
		}
	}
	for i := range 5 {
		turn(2 + i)
	}
	before := heap()
	for i := range rounds {
		turn(7 + i)
	}
	grown := heap() - before
	require.Less(t, grown/rounds, int64(25<<10), "a map takes some 60 KiB")
}
