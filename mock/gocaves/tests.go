package gocaves

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// run is one run of a suite: a cluster, and the test that goes on.
type run struct {
	client  string
	began   time.Time
	cluster *mock.Cluster
	test    *test
	ended   map[string]result // by name
}

type test struct {
	name string
	own  *mock.Cluster // nil for a test on the run's cluster
	seen int           // how many requests its cluster had received when it began
}

// result is how a test ended.
type result struct {
	status  string
	logs    []string
	packets []packet
}

// packet is a request in a report, with gocaves' names.
type packet struct {
	ID         string `json:"id"`
	Dir        string `json:"dir"`
	Bucket     string `json:"selectedBucketName"`
	Scope      string `json:"resolvedScopeName"`
	Collection string `json:"resolvedCollectionName"`
	Command    int    `json:"command"`
	Name       string `json:"commandString"`
	VBucket    int    `json:"vbId"`
	Opaque     uint32 `json:"opaque"`
	CAS        string `json:"casHex"`
	Key        []byte `json:"keyBase64"`
	Value      []byte `json:"valueBase64"`
}

// wanted is what a client has to send in a test: the opcodes for one document in that order, others in between.
type wanted struct {
	key     string
	opcodes []memd.Opcode
}

var wantedOf = map[string]wanted{
	"kv/crud/SetGet":                   {"test-doc", []memd.Opcode{memd.OpSet, memd.OpGet}},
	"kv/memcached/MemcachedBasic":      {"test-doc", []memd.Opcode{memd.OpSet, memd.OpGet}},
	"kv/errmap/ErrMapConstantRetry":    {"hello", []memd.Opcode{memd.OpGet, memd.OpGet, memd.OpGet, memd.OpGet}},
	"kv/errmap/ErrMapLinearRetry":      {"hello", []memd.Opcode{memd.OpGet, memd.OpGet, memd.OpGet, memd.OpGet}},
	"kv/errmap/ErrMapExponentialRetry": {"hello", []memd.Opcode{memd.OpGet, memd.OpGet, memd.OpGet, memd.OpGet}},
	"kv/error/ExtendedError":           {"", []memd.Opcode{memd.OpGetLocked}},
}

// faults are the tests that need a cluster of their own, with what is wrong there.
var faults = map[string]func(*mock.Cluster) error{
	"kv/errmap/ErrMapConstantRetry":    retried(0x7ff1, `"strategy":"linear","interval":2,"ceil":50`),
	"kv/errmap/ErrMapLinearRetry":      retried(0x7ff0, `"strategy":"constant","interval":10`),
	"kv/errmap/ErrMapExponentialRetry": retried(0x7ff2, `"strategy":"exponential","interval":2,"ceil":200`),
	"kv/error/ExtendedError": func(c *mock.Cluster) error {
		c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGetLocked}}, mock.ErrorBody(memd.StatusKeyNotFound,
			[]byte(`{"error":{"context":"document could not be found","ref":"someref"}}`)))
		return nil
	},
}

// shared are the other tests, which use the run's cluster.
var shared = []string{"kv/crud/SetGet", "kv/memcached/MemcachedBasic"}

// retried lets the first three reads of a document fail with a code that only the error map explains.
func retried(code memd.Status, retry string) func(*mock.Cluster) error {
	return func(c *mock.Cluster) error {
		c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Key: []byte("hello"), Times: 3}, mock.Status(code))
		return c.AddErrorCode(code, "DUMMY_ERROR", []string{"auto-retry", "temp"}, []byte(`{`+retry+`,"after":50,"max-duration":500}`))
	}
}

func (s *Server) startTesting(c *command) reply {
	var before *mock.Cluster
	if old := s.runs[c.Run]; old != nil {
		old.endTest("failed")
		before = old.cluster
	}
	cluster, err := s.started(before)
	if err == nil {
		s.runs[c.Run] = &run{client: c.Client, began: time.Now(), cluster: cluster, ended: map[string]result{}}
	}
	return addresses("startedtesting", cluster)
}

// startTest begins a test; one that still goes on ends. A test that is not known has empty members.
func (s *Server) startTest(c *command) reply {
	out := reply{"type": "startedtest", "connstr": "", "bucket": "", "scope": "", "collection": ""}
	r := s.runs[c.Run]
	if r == nil {
		return out
	}
	r.endTest("failed")
	t, bucket := &test{name: c.Test}, "default"
	connstr := r.cluster.ConnString()
	switch fault := faults[c.Test]; {
	case fault != nil:
		own, err := s.Cluster()
		if err != nil {
			return out
		}
		if fault(own) != nil {
			_ = own.Close() // of use to no test
			return out
		}
		t.own, connstr = own, own.ConnString()
	case c.Test == "kv/memcached/MemcachedBasic":
		bucket, connstr = "memd", managementString(r.cluster)
	case !slices.Contains(shared, c.Test):
		return out
	}
	t.seen = len(r.clusterOf(t).FrameLog())
	r.test = t
	out["connstr"], out["bucket"], out["scope"], out["collection"] = connstr, bucket, "_default", "_default"
	return out
}

// managementString is a connection string of management ports.
func managementString(c *mock.Cluster) string {
	out := "http://"
	for i, n := range c.Nodes() {
		if i > 0 {
			out += ","
		}
		out += n.ManagementAddr()
	}
	return out
}

// clusterOf is the cluster of a test.
func (r *run) clusterOf(t *test) *mock.Cluster {
	if t.own != nil {
		return t.own
	}
	return r.cluster
}

// judge says how the test ended: as it is told, or by what its cluster has received.
func (r *run) judge(how string) result {
	t := r.test
	want := wantedOf[t.name]
	out := result{status: how, logs: []string{}, packets: []packet{}}
	missing := want.opcodes
	for _, f := range r.clusterOf(t).FrameLog()[t.seen:] {
		if f.Document == "" {
			continue
		}
		scope, collection, _ := strings.Cut(f.Collection, ".")
		out.packets = append(out.packets, packet{
			ID: strconv.Itoa(len(out.packets)), Dir: "in", Bucket: f.Bucket, Scope: scope, Collection: collection,
			Command: int(f.Opcode), Name: f.Opcode.String(), VBucket: int(f.VBucket), Opaque: f.Opaque,
			CAS: fmt.Sprintf("%016x", f.CAS), Key: []byte(f.Document), Value: f.Value,
		})
		if len(missing) > 0 && f.Opcode == missing[0] && (want.key == "" || f.Document == want.key) {
			missing = missing[1:]
		}
	}
	switch {
	case out.status != "":
	case len(missing) > 0:
		out.status = "failed"
		out.logs = append(out.logs, fmt.Sprintf("no %s for the document %q came", missing[0], want.key))
	default:
		out.status = "success"
	}
	return out
}

// endTest ends the test that goes on; by what the client has sent where it is not said how.
func (r *run) endTest(how string) {
	if r.test == nil {
		return
	}
	r.ended[r.test.name] = r.judge(how)
	if r.test.own != nil {
		_ = r.test.own.Close() // nothing of it is used any more
	}
	r.test = nil
}

// report is what a run comes to.
type report struct {
	MinVersion int          `json:"minversion"`
	Version    int          `json:"version"`
	ID         string       `json:"id"`
	CreatedAt  time.Time    `json:"createdAt"`
	Client     string       `json:"client"`
	Tests      []testReport `json:"tests"`
}

type testReport struct {
	Name    string   `json:"name"`
	Text    string   `json:"desc"`
	Status  string   `json:"status"`
	Logs    []string `json:"logs"`
	Packets []packet `json:"packets"`
}

// endTesting ends a run and its cluster; nil for a run that is not known.
func (s *Server) endTesting(c *command) *report {
	r := s.runs[c.Run]
	if r == nil {
		return nil
	}
	r.endTest("failed")
	delete(s.runs, c.Run)
	_ = r.cluster.Close() // nothing of it is used any more
	out := &report{MinVersion: 1, Version: 1, ID: c.Run, CreatedAt: r.began, Client: r.client}
	names := slices.Clone(shared)
	for name := range faults {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		how, ended := r.ended[name]
		if !ended {
			how = result{"skipped", []string{}, []packet{}}
		}
		out.Tests = append(out.Tests, testReport{Name: name, Status: how.status, Logs: how.logs, Packets: how.packets})
	}
	return out
}
