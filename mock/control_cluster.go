package mock

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// controlFailover takes a node out of the map. It goes on accepting connections and is silent.
func controlFailover(c *Cluster, a args) (any, error) {
	i, err := c.nodeOf(a)
	if err != nil {
		return nil, err
	}
	again, err := a.flag("rebalance", true)
	if err != nil {
		return nil, err
	}
	if nodes := c.Nodes(); i >= 0 && i < len(nodes) {
		if err := c.Failover(i); err != nil {
			return nil, err
		}
		nodes[i].suspended.Store(true)
	}
	if again {
		return nil, c.Rebalance()
	}
	return nil, nil
}

func controlRespawn(c *Cluster, a args) (any, error) {
	i, err := c.nodeOf(a)
	if err != nil {
		return nil, err
	}
	if nodes := c.Nodes(); i >= 0 && i < len(nodes) {
		nodes[i].suspended.Store(false)
		if err := c.Respawn(i); err != nil {
			return nil, err
		}
	}
	return nil, c.Rebalance()
}

func controlHiccup(c *Cluster, a args) (any, error) {
	ms, err := a.number("msecs", nil)
	if err != nil {
		return nil, err
	}
	offset, err := a.number("offset", nil)
	if err != nil {
		return nil, err
	}
	f := ConnFaults{PauseAt: int(offset), Pause: time.Duration(ms) * time.Millisecond}
	if offset <= 0 {
		f = ConnFaults{}
	}
	return nil, c.SetConnFaults(f)
}

func controlTruncate(c *Cluster, a args) (any, error) {
	limit, err := a.number("limit", nil)
	if err != nil {
		return nil, err
	}
	return nil, c.SetConnFaults(ConnFaults{KeepOnly: int(max(0, limit))})
}

func controlTravel(c *Cluster, a args) (any, error) {
	s, err := a.number("Offset", nil)
	if err == nil {
		c.TimeTravel(time.Duration(s) * time.Second)
	}
	return nil, err
}

// controlOpFail lets the next requests fail with a status.
func controlOpFail(c *Cluster, a args) (any, error) {
	code, err := a.number("code", nil)
	if err != nil {
		return nil, err
	}
	count, err := a.number("count", nil)
	if err != nil {
		return nil, err
	}
	op, err := a.number("operation", ptr(int64(-1)))
	if err != nil {
		return nil, err
	}
	nodes, err := c.servers(a)
	if err != nil {
		return nil, err
	}
	if s := memd.Status(code); code < 0 || code > 0xffff || !s.Known() && !c.errorCode(s) {
		return nil, fmt.Errorf("Invalid error code: %d", code) //nolint:staticcheck // the text that clients know
	}
	m := Match{Times: int(max(0, count))}
	if op >= 0 && op <= 0xff {
		m.Opcodes = []memd.Opcode{memd.Opcode(op)}
	}
	for _, i := range nodes {
		c.mu.Lock()
		old := c.controls.opFail[i]
		delete(c.controls.opFail, i)
		c.mu.Unlock()
		if old != nil {
			old.Remove()
		}
		if count == 0 {
			continue
		}
		m.Nodes = []int{i}
		in := c.Inject(m, Status(memd.Status(code)))
		c.mu.Lock()
		c.controls.opFail[i] = in
		c.mu.Unlock()
	}
	return nil, nil
}

func ptr[T any](v T) *T { return &v }

// controlSwitch sets one of the switches of buckets on nodes.
func (c *Cluster) controlSwitch(a args, of func(*controlState) map[nodeBucket]bool, on bool) error {
	nodes, err := c.servers(a)
	if err != nil {
		return err
	}
	var names []string
	if a["bucket"] != nil {
		name, err := c.bucketOf(a)
		if err != nil {
			return err
		}
		names = []string{name}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if names == nil {
		for name := range c.buckets {
			names = append(names, name)
		}
	}
	for _, i := range nodes {
		for _, name := range names {
			of(&c.controls)[nodeBucket{i, name}] = on
		}
	}
	return nil
}

func controlCCCP(c *Cluster, a args) (any, error) {
	if a["enabled"] == nil {
		return nil, missing("enabled")
	}
	on, err := a.flag("enabled", true)
	if err != nil {
		return nil, err
	}
	return nil, c.controlSwitch(a, func(s *controlState) map[nodeBucket]bool { return s.noCCCP }, !on)
}

func controlEnhanced(c *Cluster, a args) (any, error) {
	if a["enabled"] == nil {
		return nil, missing("enabled")
	}
	on, err := a.flag("enabled", true)
	if err != nil {
		return nil, err
	}
	return nil, c.controlSwitch(a, func(s *controlState) map[nodeBucket]bool { return s.noBodies }, !on)
}

// bodiless reports whether failures have no body for the request's bucket.
func (c *Cluster) bodiless(rq *request) bool {
	if rq.b == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return rq.switched(c.controls.noBodies)
}

// switched reports whether a switch is set for the request's bucket on its node. The caller holds the mutex.
func (rq *request) switched(m map[nodeBucket]bool) bool {
	return rq.b != nil && m[nodeBucket{rq.k.n.index, rq.b.name}]
}

func controlCompression(c *Cluster, a args) (any, error) {
	if a["mode"] == nil {
		return nil, missing("mode")
	}
	mode, err := a.text("mode", "")
	if err != nil {
		return nil, err
	}
	mode = strings.ToLower(mode)
	m, known := compressionModes[mode]
	if !known && mode != "disabled" {
		return nil, fmt.Errorf("unknown compression mode %q", mode)
	}
	name, err := c.bucketOf(a)
	if err != nil {
		return nil, err
	}
	return nil, c.withBucket(name, func(b *bucket) {
		c.controls.noSnappy = !known
		if known {
			b.compression = m
		}
	})
}

func controlMechanisms(c *Cluster, a args) (any, error) {
	list, ok := a["mechs"].([]any)
	if !ok {
		return nil, missing("mechs")
	}
	nodes, err := c.servers(a)
	if err != nil {
		return nil, err
	}
	mechs := []string{}
	for _, m := range list {
		mechs = append(mechs, strings.ToUpper(fmt.Sprint(m)))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range nodes {
		c.controls.mechs[i] = mechs
	}
	return nil, nil
}

// mechanisms are the SASL mechanisms that a node offers and accepts.
func (n *Node) mechanisms() []string {
	n.c.mu.Lock()
	defer n.c.mu.Unlock()
	if m, ok := n.c.controls.mechs[n.index]; ok {
		return slices.Clone(m)
	}
	return n.c.set.mechs
}

func controlPorts(c *Cluster, a args) (any, error) {
	if _, err := c.bucketOf(a); err != nil {
		return nil, err
	}
	ports := []int{}
	for _, n := range c.Nodes() {
		ports = append(ports, portOf(n.Addr()))
	}
	return ports, nil
}

// controlRegen gives every vbucket of a bucket a new history.
func controlRegen(c *Cluster, a args) (any, error) {
	name, err := c.bucketOf(a)
	if err != nil {
		return nil, err
	}
	return nil, c.withStore(name, (*store.Store).ForkAll)
}

// indexGone is what a plan is answered whose index has gone.
const indexGone = 5000

func controlResetQuery(c *Cluster, _ args) (any, error) {
	c.FailPrepared(indexGone)
	return nil, nil
}

// controlQueryErrors lets queries fail, or work again when it names no error.
func controlQueryErrors(c *Cluster, a args) (any, error) {
	message, err := a.text("message", "")
	if err != nil {
		return nil, err
	}
	code, err := a.number("code", ptr(int64(0)))
	if err != nil {
		return nil, err
	}
	regular, err := a.flag("fail_regular", true)
	if err != nil {
		return nil, err
	}
	prepared, err := a.flag("fail_prepared", true)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	old := c.controls.query
	c.controls.query = nil
	c.mu.Unlock()
	for _, s := range old {
		s.Remove()
	}
	if message == "" || code == 0 {
		return nil, nil
	}
	s := c.Script(ServiceMatch{Service: QueryService, Func: func(r *ServiceRequest) bool {
		plan := r.Prepared != ""
		return plan && prepared || !plan && regular
	}}, Answer{Status: 500, Errors: []ServiceError{{Code: int(code), Message: message}}})
	c.mu.Lock()
	c.controls.query = append(c.controls.query, s)
	c.mu.Unlock()
	return nil, nil
}
