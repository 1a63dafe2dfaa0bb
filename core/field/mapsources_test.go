package field_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
)

// manager is a management service that knows the terse map of one bucket, and nothing else.
type manager struct {
	mu    sync.Mutex
	asked []string // the paths, with the credentials in front
}

// startManager serves at addr until the test ends. body makes a map; nil is a bucket that is not there.
func startManager(t testing.TB, addr, bucket string, body func() []byte) *manager {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	m := &manager{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		m.mu.Lock()
		m.asked = append(m.asked, user+r.URL.Path)
		m.mu.Unlock()
		raw := body()
		if raw == nil || r.URL.Path != "/pools/default/b/"+bucket {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(raw)
	}))
	require.NoError(t, s.Listener.Close())
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return m
}

func (m *manager) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.asked...)
}

// lonely is a loopback address that nothing else here uses, nor a run of the same tests beside this one.
func lonely(t testing.TB) string {
	t.Helper()
	nextLonely.Lock()
	defer nextLonely.Unlock()
	nextLonely.n++
	return fmt.Sprintf("127.%d.%d.1", 3+os.Getpid()%250, nextLonely.n)
}

var nextLonely struct {
	sync.Mutex
	n int
}

// connString opens a cluster by a connection string.
func connString(t testing.TB, s string, change ...func(*core.Config)) *core.Cluster {
	t.Helper()
	cfg, err := core.ParseConnString(s)
	require.NoError(t, err)
	cfg.Net.NodeFilter = core.AnyNode
	for _, c := range change {
		c(&cfg)
	}
	return openConfig(t, cfg)
}

// withSeed is a cluster of a seed at an address of its own, at the default port, and of a node that has the data.
func withSeed(t testing.TB, hook scripted.Hook) (s *scripted.Cluster, host string) {
	t.Helper()
	host = lonely(t)
	s = &scripted.Cluster{Features: scripted.AllFeatures()}
	s.Add(t, host+":11210").SetHook(hook)
	s.Add(t, "127.0.0.1:0")
	return s, host
}

// answers refuses some requests with a status.
func answers(status memd.Status, ops ...memd.Opcode) scripted.Hook {
	return func(s *scripted.Session, p *memd.Packet) bool {
		for _, op := range ops {
			if p.Opcode == op {
				s.Reply(p, status, nil, nil)
				return true
			}
		}
		return false
	}
}

// TestSeedWithoutTheBucket_D127: a seed that refuses the bucket, for whatever reason that may pass, still tells over
// HTTP where it is.
func TestSeedWithoutTheBucket_D127(t *testing.T) {
	for name, status := range map[string]memd.Status{
		"not found": memd.StatusKeyNotFound, "not ready": memd.StatusTmpFail, "no bucket": memd.StatusNoBucket,
		"too many": 0x32,
	} {
		t.Run(name, func(t *testing.T) {
			s, host := withSeed(t, answers(status, memd.OpSelectBucket, memd.OpGetClusterConfig))
			startManager(t, host+":8091", "default",
				func() []byte { return s.Render(scripted.Spec{Bucket: "default", Live: []int{1}}) })
			b := connString(t, "couchbase://"+host).Bucket("default")
			require.NoError(t, upsert(t, b))
			require.NoError(t, b.WaitReady(within(t, 4*time.Second)))
		})
	}
}

// TestNoMapForEver_D127: a node that says that it has no map yet, and goes on saying so, is asked over HTTP.
func TestNoMapForEver_D127(t *testing.T) {
	s, host := withSeed(t, answers(memd.StatusKeyNotFound, memd.OpGetClusterConfig))
	s.Map = func(*scripted.Node, string) []byte {
		return s.Render(scripted.Spec{Bucket: "cache", Live: []int{0}, Rev: 9})
	}
	rev := int64(1)
	var mu sync.Mutex
	m := startManager(t, host+":8091", "cache", func() []byte {
		mu.Lock()
		defer mu.Unlock()
		return s.Render(scripted.Spec{Bucket: "cache", Live: []int{0}, Rev: rev})
	})
	b := connString(t, "couchbase://"+host,
		func(c *core.Config) { c.Maps.PollInterval = 100 * time.Millisecond }).Bucket("cache")
	require.NoError(t, b.WaitReady(within(t, 6*time.Second)))
	require.NoError(t, upsert(t, b))

	mu.Lock() // newer maps come the same way
	rev = 7
	mu.Unlock()
	require.Eventually(t, func() bool { mp, _ := b.Map(); return mp.Rev == 7 }, 5*time.Second, 10*time.Millisecond)

	s.Nodes[0].SetHook(nil) // until the node has one
	require.Eventually(t, func() bool { mp, _ := b.Map(); return mp.Rev == 9 }, 5*time.Second, 10*time.Millisecond)
	time.Sleep(300 * time.Millisecond)
	before := len(m.requests())
	time.Sleep(500 * time.Millisecond)
	require.Len(t, m.requests(), before)
}

// TestWithoutAKeyValuePort_D127: every form of an address that means HTTP too has it asked, and so do addresses whose
// key-value port is closed, or takes connections and says nothing.
func TestWithoutAKeyValuePort_D127(t *testing.T) {
	s := scripted.New(t, 1)
	for _, form := range []string{"http://H:8091", "H:8091", "http://H", "H", "couchbase://H"} {
		host := lonely(t)
		startManager(t, host+":8091", "default", func() []byte { return s.Render(scripted.Spec{Bucket: "default"}) })
		b := connString(t, strings.ReplaceAll(form, "H", host)).Bucket("default")
		require.NoError(t, b.WaitReady(within(t, 3*time.Second)), form)
		require.NoError(t, upsert(t, b), form)
	}
	host := lonely(t)
	silent, err := net.Listen("tcp", host+":11210")
	require.NoError(t, err)
	defer silent.Close()
	startManager(t, host+":8091", "default", func() []byte { return s.Render(scripted.Spec{Bucket: "default"}) })
	b := connString(t, "couchbase://"+host,
		func(c *core.Config) { c.Maps.PollInterval = 200 * time.Millisecond }).Bucket("default")
	require.NoError(t, b.WaitReady(within(t, 5*time.Second)), "long before ConnectTimeout")
}

// TestHTTPIsNotAskedWhereItWasNotAllowed_D127: by bootstrap_on, or because that would show a password that the
// key-value service is not shown. A bucket that is nowhere, and a login that is refused, keep their names.
func TestHTTPIsNotAskedWhereItWasNotAllowed_D127(t *testing.T) {
	s := scripted.New(t, 1)
	render := func() []byte { return s.Render(scripted.Spec{Bucket: "default"}) }
	user := func(c *core.Config) { c.Auth.Username, c.Auth.Password = "u", core.NewSecret("p") }
	for name, c := range map[string]struct {
		form   string
		change func(*core.Config)
		asked  bool
	}{
		"cccp only":                {"couchbase://H?bootstrap_on=cccp", func(*core.Config) {}, false},
		"would show the password":  {"couchbase://H", user, false},
		"shows it where told":      {"couchbase://H?allow_plain=true", user, true},
		"http shows it by its way": {"http://H", user, true},
	} {
		host := lonely(t)
		m := startManager(t, host+":8091", "default", render)
		b := connString(t, strings.ReplaceAll(c.form, "H", host), func(cfg *core.Config) {
			cfg.Maps.PollInterval = 50 * time.Millisecond
			c.change(cfg)
		}).Bucket("default")
		limit := 500 * time.Millisecond
		if c.asked {
			limit = 3 * time.Second
		}
		err := b.WaitReady(within(t, limit))
		require.Equal(t, c.asked, len(m.requests()) > 0, name)
		if !c.asked {
			require.ErrorContains(t, err, "connection refused", name)
		}
	}

	seed, host := withSeed(t, answers(memd.StatusKeyNotFound, memd.OpSelectBucket))
	startManager(t, host+":8091", "default", func() []byte { return nil })
	b := connString(t, "couchbase://"+host).Bucket("default")
	err := b.WaitReady(within(t, 500*time.Millisecond))
	require.ErrorIs(t, err, cberr.BucketNotFound)
	require.ErrorContains(t, err, "SELECT_BUCKET")
	require.ErrorContains(t, err, "HTTP 404")
	_, err = kv.Do(within(t, time.Second), b, kv.Get{
		Key:    []byte("k"),
		Common: kv.Common{Timeout: 100 * time.Millisecond},
	})
	require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	require.ErrorContains(t, err, "SELECT_BUCKET")

	seed.Nodes[0].SetHook(answers(memd.StatusAuthError, memd.OpSASLAuth))
	m := startManager(t, host+":8092", "default", render)
	c := connString(t, "couchbase://"+host, user, func(c *core.Config) { c.Seeds.HTTPHosts = []string{host + ":8092"} })
	require.ErrorIs(t, c.Bucket("default").WaitReady(within(t, time.Second)), cberr.AuthenticationFailure)
	require.Empty(t, m.requests(), "the same login is refused there, too")
}

// TestNextAddressAfterAMapThatIsNone_D127: an address that gives something else than a map has had its turn.
func TestNextAddressAfterAMapThatIsNone_D127(t *testing.T) {
	s := scripted.New(t, 1)
	good, bad := lonely(t), lonely(t)
	startManager(t, good+":8091", "default", func() []byte { return s.Render(scripted.Spec{Bucket: "default"}) })
	startManager(t, bad+":8091", "default", func() []byte { return []byte(`{"no":"map"}`) })
	for range 4 { // where it begins is a matter of chance
		b := connString(t, "http://"+bad+","+good).Bucket("default")
		require.NoError(t, b.WaitReady(within(t, 3*time.Second)))
	}
}
