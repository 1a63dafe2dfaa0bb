package control

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Index says what this is.
type Index struct {
	Name    string `json:"name"`
	OpenAPI string `json:"openapi"`
	Guide   string `json:"guide"`
	Console string `json:"console,omitempty" doc:"a page for a browser, where it is switched on"`
}

func index(c *call, _ *nothing) (Index, error) {
	out := Index{
		Name: "control of a couchcore mock cluster", OpenAPI: "http://" + c.r.Host + "/openapi.json",
		Guide: "docs/testing.md",
	}
	if c.x.opts.Console {
		out.Console = "http://" + c.r.Host + consolePath
	}
	return out, nil
}

func describe(*call, *nothing) (document, error) { return openAPI, nil }

// Cluster is how the cluster is.
type Cluster struct {
	ConnectionString    string   `json:"connection_string"`
	TLSConnectionString string   `json:"tls_connection_string,omitempty"`
	Epoch               int64    `json:"epoch" doc:"of the configuration in force"`
	Revision            int64    `json:"revision"`
	Nodes               []Node   `json:"nodes"`
	Buckets             []Bucket `json:"buckets"`
}

// Node is one node.
type Node struct {
	Node        int               `json:"node" doc:"its number, which it keeps"`
	Up          bool              `json:"up"`
	Membership  string            `json:"membership" doc:"active, added or out"`
	Suspended   bool              `json:"suspended,omitempty" doc:"it takes requests and does nothing"`
	Faults      *ConnFaults       `json:"connection_faults,omitempty" doc:"what its key-value connections do on purpose"`
	Connections int               `json:"connections" doc:"to its key-value service"`
	Addresses   map[string]string `json:"addresses" doc:"host and port of its services: kv, management, query and so on, and with SSL behind the name over TLS"`
}

// Bucket is one bucket.
type Bucket struct {
	Name        string   `json:"name"`
	Collections []string `json:"collections" doc:"scope.collection"`
}

func getCluster(c *call, _ *nothing) (Cluster, error) {
	m := c.x.c
	out := Cluster{
		ConnectionString: m.ConnString(), TLSConnectionString: m.TLSConnString(), Nodes: []Node{}, Buckets: []Bucket{},
	}
	out.Epoch, out.Revision = m.Revision()
	for _, n := range m.Nodes() {
		out.Nodes = append(out.Nodes, describeNode(n))
	}
	for _, name := range m.Buckets() {
		out.Buckets = append(out.Buckets, Bucket{Name: name, Collections: m.Collections(name)})
	}
	return out, nil
}

func describeNode(n *mock.Node) Node {
	out := Node{
		Node: n.Index(), Up: n.Up(), Membership: n.Membership(), Connections: n.Connections(),
		Suspended: n.Suspended(),
		Addresses: map[string]string{"kv": n.Addr(), "kvSSL": n.TLSAddr()},
	}
	for name, s := range serviceNames {
		if name != "" {
			out.Addresses[name], out.Addresses[name+"SSL"] = n.ServiceAddr(s), n.ServiceTLSAddr(s)
		}
	}
	for name, addr := range out.Addresses {
		if addr == "" {
			delete(out.Addresses, name)
		}
	}
	if f := n.ConnFaults(); f != (mock.ConnFaults{}) {
		out.Faults = &ConnFaults{
			Latency: f.Latency.Milliseconds(), Slice: f.Slice, Gap: f.Gap.Milliseconds(), ReadAtMost: f.ReadAtMost,
			PauseAt: f.PauseAt, Pause: f.Pause.Milliseconds(), KeepOnly: f.KeepOnly, Drop: f.Drop, Deaf: f.Deaf,
			ResetAfter: f.ResetAfter,
		}
	}
	return out
}

// Connections are the connections to nodes, oldest first.
type Connections struct {
	Items []Connection `json:"items"`
}

// Connection is a connection to a node's key-value service.
type Connection struct {
	Connection uint64 `json:"connection" doc:"counts up over the cluster"`
	Node       int    `json:"node"`
	Peer       string `json:"peer" doc:"the client's address"`
	Agent      string `json:"agent,omitempty" doc:"what the client calls itself"`
	User       string `json:"user,omitempty"`
	Bucket     string `json:"bucket,omitempty" doc:"that it has selected"`
	TLS        bool   `json:"tls,omitempty"`
}

func connections(c *call, _ *nothing) (Connections, error) {
	out := Connections{Items: []Connection{}}
	for _, k := range c.x.c.Connections() {
		out.Items = append(out.Items, Connection{k.Conn, k.Node, k.Peer, k.Agent, k.User, k.Bucket, k.TLS})
	}
	return out, nil
}

// reset is for the time between two tests.
func reset(c *call, _ *nothing) (nothing, error) {
	x := c.x
	x.mu.Lock()
	var all []*inForce
	for _, k := range []kind{injections, scripts, expectations} {
		for _, f := range k.all(x) {
			all = append(all, f)
		}
		clear(k.all(x))
	}
	var ends []func()
	for _, end := range x.holds {
		ends = append(ends, end)
	}
	clear(x.holds)
	x.mu.Unlock()
	for _, f := range all {
		f.t.Remove()
		f.t.Release()
	}
	for _, end := range ends {
		end()
	}
	for _, n := range x.c.Nodes() {
		if err := x.c.SetSuspended(n.Index(), false); err != nil {
			return nothing{}, err
		}
	}
	if err := x.c.SetConnFaults(mock.ConnFaults{}); err != nil {
		return nothing{}, err
	}
	for _, b := range x.c.Buckets() {
		if err := x.c.ClearApplyLog(b); err != nil {
			return nothing{}, err
		}
	}
	x.c.ClearFrameLog()
	x.c.ClearServiceLog()
	x.c.ClearUnsupported()
	x.c.ClearTelemetry()
	return nothing{}, nil
}

func rebalance(c *call, _ *nothing) (Cluster, error) {
	if err := c.x.c.Rebalance(); err != nil {
		return Cluster{}, err
	}
	return getCluster(c, nil)
}

// Push says what to notify of.
type Push struct {
	Node     *int            `json:"node,omitempty" doc:"with config: the node that notifies"`
	Bucket   string          `json:"bucket,omitempty" doc:"with config: the notification's key"`
	Epoch    int64           `json:"epoch,omitempty"`
	Revision int64           `json:"revision,omitempty"`
	Config   json.RawMessage `json:"config,omitempty" doc:"a map of the caller's making; absent for the one in force"`
}

// Pushed says to how many connections that went.
type Pushed struct {
	Connections int `json:"connections" doc:"that a map of the caller's making went to"`
}

func push(c *call, in *Push) (Pushed, error) {
	if in.Config == nil {
		c.x.c.Push()
		return Pushed{}, nil
	}
	node := 0
	if in.Node != nil {
		node = *in.Node
	}
	if err := c.nodes("node", []int{node}); err != nil {
		return Pushed{}, err
	}
	return Pushed{c.x.c.PushMap(node, in.Bucket, in.Epoch, in.Revision, in.Config)}, nil
}

// Bump says what grows.
type Bump struct {
	Epoch bool `json:"epoch,omitempty" doc:"the epoch, with the revision beginning again, instead of the revision"`
}

func bump(c *call, in *Bump) (Cluster, error) {
	if in.Epoch {
		c.x.c.BumpEpoch()
	} else {
		c.x.c.BumpRevision()
	}
	return getCluster(c, nil)
}

func addNode(c *call, _ *nothing) (Node, error) {
	i := c.x.c.AddNode()
	if i < 0 {
		return Node{}, &Error{Status: 400, Code: "failed", Message: "the node cannot be started: no port, or 64 nodes"}
	}
	return describeNode(c.x.c.Node(i)), nil
}

// onNode is a route that does something to the node of its path.
func onNode(f func(*mockCluster, int) error) func(*call, *nothing) (Node, error) {
	return func(c *call, _ *nothing) (Node, error) {
		i, err := c.node()
		if err != nil {
			return Node{}, err
		}
		if err := f(c.x.c, i); err != nil {
			return Node{}, err
		}
		return describeNode(c.x.c.Node(i)), nil
	}
}

func suspend(m *mockCluster, node int) error { return m.SetSuspended(node, true) }
func resume(m *mockCluster, node int) error  { return m.SetSuspended(node, false) }

// Failover says how a node leaves.
type Failover struct {
	Hard bool `json:"hard,omitempty" doc:"the node stops before the others know"`
}

func failover(c *call, in *Failover) (Node, error) {
	f := (*mockCluster).Failover
	if in.Hard {
		f = (*mockCluster).FailoverHard
	}
	return onNode(f)(c, nil)
}

// Disconnect says how connections break.
type Disconnect struct {
	Reset bool `json:"reset,omitempty" doc:"so that clients see a reset"`
}

func disconnect(c *call, in *Disconnect) (Node, error) {
	f := (*mockCluster).CloseConns
	if in.Reset {
		f = (*mockCluster).ResetConns
	}
	return onNode(f)(c, nil)
}

// ConnFaults is what connections do on purpose.
type ConnFaults struct {
	Nodes      []int `json:"nodes,omitempty" doc:"absent for all"`
	Latency    int64 `json:"latency_ms,omitempty" doc:"before each write of a node"`
	Slice      int   `json:"slice,omitempty" doc:"writes go out in pieces of so many bytes"`
	Gap        int64 `json:"gap_ms,omitempty" doc:"between the pieces"`
	ReadAtMost int   `json:"read_at_most,omitempty" doc:"bytes of a read"`
	PauseAt    int   `json:"pause_at,omitempty" doc:"after so many bytes of each write"`
	Pause      int64 `json:"pause_ms,omitempty"`
	KeepOnly   int   `json:"keep_only,omitempty" doc:"bytes of each write; what is more is lost"`
	Drop       bool  `json:"drop,omitempty" doc:"nothing goes out; with deaf the connection is half-open"`
	Deaf       bool  `json:"deaf,omitempty" doc:"nothing is read"`
	ResetAfter int   `json:"reset_after,omitempty" doc:"so many bytes have been written"`
}

func connFaults(c *call, in *ConnFaults) (nothing, error) {
	if err := c.nodes("nodes", in.Nodes); err != nil {
		return nothing{}, err
	}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	for name, n := range map[string]int64{
		"latency_ms": in.Latency, "slice": int64(in.Slice), "gap_ms": in.Gap, "read_at_most": int64(in.ReadAtMost),
		"pause_at": int64(in.PauseAt), "pause_ms": in.Pause, "keep_only": int64(in.KeepOnly),
		"reset_after": int64(in.ResetAfter),
	} {
		if n < 0 || strings.HasSuffix(name, "_ms") && n > MaxWait.Milliseconds() {
			e := invalid(name, "%d is not allowed", n)
			e.Limit = MaxWait.Milliseconds()
			return nothing{}, e
		}
	}
	return nothing{}, c.x.c.SetConnFaults(mock.ConnFaults{
		Slice: in.Slice, Gap: ms(in.Gap), ReadAtMost: in.ReadAtMost, Latency: ms(in.Latency), PauseAt: in.PauseAt,
		Pause: ms(in.Pause), KeepOnly: in.KeepOnly, Drop: in.Drop, Deaf: in.Deaf, ResetAfter: in.ResetAfter,
	}, in.Nodes...)
}

// Mechanisms are those that nodes offer.
type Mechanisms struct {
	Names []string `json:"names" doc:"in order; null for the cluster's"`
	Nodes []int    `json:"nodes,omitempty" doc:"absent for all"`
}

func setMechanisms(c *call, in *Mechanisms) (nothing, error) {
	if err := c.nodes("nodes", in.Nodes); err != nil {
		return nothing{}, err
	}
	c.x.c.SetMechanisms(in.Names, in.Nodes...)
	return nothing{}, nil
}

// Features are HELLO features.
type Features struct {
	Names []string `json:"names" doc:"names, such as Snappy, or numbers; all that are refused"`
}

func refuseFeatures(c *call, in *Features) (nothing, error) {
	var list []memd.Feature
	for i, name := range in.Names {
		f, err := feature(fmt.Sprintf("names[%d]", i), name)
		if err != nil {
			return nothing{}, err
		}
		list = append(list, f)
	}
	c.x.c.RefuseFeatures(list...)
	return nothing{}, nil
}

func feature(field, name string) (memd.Feature, error) {
	for i := range 64 {
		if f := memd.Feature(i); f.Known() && strings.EqualFold(f.String(), name) {
			return f, nil
		}
	}
	if n, err := strconv.ParseUint(name, 0, 16); err == nil {
		return memd.Feature(n), nil
	}
	return 0, invalid(field, "%q is not the name or the number of a feature", name)
}

// certificateKinds are the kinds of certificates by their names.
var certificateKinds = map[string]mock.Certificate{
	"good": mock.GoodCertificate, "expired": mock.ExpiredCertificate, "not_yet_valid": mock.FutureCertificate,
	"other_name": mock.OtherNameCertificate, "other_authority": mock.OtherAuthorityCertificate,
	"rotated": mock.RotatedCertificate,
}

// Certificate says what nodes show.
type Certificate struct {
	Kind  string `json:"kind" doc:"good, expired, not_yet_valid, other_name, other_authority or rotated, which is a new good one"`
	Nodes []int  `json:"nodes,omitempty" doc:"absent for all"`
}

func setCertificate(c *call, in *Certificate) (nothing, error) {
	kind, ok := certificateKinds[in.Kind]
	if !ok {
		return nothing{}, invalid("kind", "%q is not good, expired, not_yet_valid, other_name, other_authority or "+
			"rotated", in.Kind)
	}
	if err := c.nodes("nodes", in.Nodes); err != nil {
		return nothing{}, err
	}
	return nothing{}, c.x.c.SetCertificate(kind, in.Nodes...)
}

// AlternateAddress is where a node is found from outside of its network.
type AlternateAddress struct {
	Hostname string         `json:"hostname,omitempty"`
	Ports    map[string]int `json:"ports,omitempty" doc:"by the names of the configuration: kv, kvSSL, mgmt, n1ql and so on; absent for the node's own"`
}

func setAlternate(c *call, in *AlternateAddress) (Node, error) {
	return onNode(func(m *mockCluster, node int) error {
		if in.Hostname == "" {
			return m.SetAlternateAddress(node, nil)
		}
		return m.SetAlternateAddress(node, &mock.AlternateAddress{Hostname: in.Hostname, Ports: in.Ports})
	})(c, nil)
}

// PEM has certificates and keys.
type PEM struct {
	Certificate string `json:"certificate" doc:"PEM"`
	Key         string `json:"key,omitempty" doc:"PEM"`
}

func getCA(c *call, _ *nothing) (PEM, error) {
	ca := c.x.c.CA()
	if ca == nil {
		return PEM{}, notFound("", "the cluster has no TLS")
	}
	return PEM{Certificate: string(ca)}, nil
}

// ClientCertificate says for which user.
type ClientCertificate struct {
	User string `json:"user"`
}

func clientCertificate(c *call, in *ClientCertificate) (PEM, error) {
	cert, err := c.x.c.ClientCertificate(in.User)
	if err != nil {
		return PEM{}, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return PEM{}, fmt.Errorf("control: %w", err)
	}
	text := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return PEM{Certificate: text("CERTIFICATE", cert.Certificate[0]), Key: text("PRIVATE KEY", key)}, nil
}

// Clock is the time by which documents expire.
type Clock struct {
	Now string `json:"now" doc:"RFC 3339"`
}

func clock(c *call, _ *nothing) (Clock, error) {
	return Clock{c.x.c.Now().UTC().Format(time.RFC3339Nano)}, nil
}

// Travel moves the clock.
type Travel struct {
	Advance int64 `json:"advance_ms" doc:"negative goes back; several calls add up"`
}

func travel(c *call, in *Travel) (Clock, error) {
	const most = math.MaxInt64 / int64(time.Millisecond) / 4
	if in.Advance > most || in.Advance < -most {
		e := invalid("advance_ms", "%d is too far", in.Advance)
		e.Limit = most
		return Clock{}, e
	}
	c.x.c.TimeTravel(time.Duration(in.Advance) * time.Millisecond)
	return clock(c, nil)
}
