package mock

import (
	"fmt"
	"maps"
	"slices"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/management"
	"github.com/couchcore/couchcore/mock/internal/store"
)

func (m manager) SettingsChanged(page string) {
	if page == telemetryPage {
		m.c.telemetryChanged()
	}
}

func (m manager) Accounts() []management.Account {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []management.Account
	for _, name := range sortedKeys(c.users) {
		if name == "" { // for requests without credentials
			continue
		}
		u := c.users[name]
		out = append(out, management.Account{Name: name, External: u.external, Rights: u.rights()})
	}
	return out
}

// SetAccount changes an account in place: connections that are logged in keep it, with what it may do now. An external
// account that no option has made exists for the management service only, because the mock has no directory of others.
func (m manager) SetAccount(a *management.Account, password *string) {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.users[a.Name]
	if u == nil {
		if a.External {
			return
		}
		u = &user{name: a.Name}
		c.users[a.Name] = u
	}
	if u.external != a.External {
		return
	}
	if a.BuiltIn {
		c.builtIn = a.Name
	}
	u.admin, u.looks, u.reads, u.buckets = a.Admin, a.Looks, a.Reads, map[string]bool{}
	for _, b := range a.Buckets {
		u.buckets[b] = true
	}
	if password != nil {
		u.password = *password
	}
}

func (m manager) DropAccount(name string) {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.users, name)
}

func (m manager) AddNode(names []string, group string) (int, error) {
	var set *[serviceCount]bool
	if len(names) > 0 {
		set = new(serviceSet(nil))
		for s, spec := range serviceSpecs {
			if slices.Contains(names, spec.role) {
				set[s] = true
			}
		}
		set[ViewsService] = set[KVService]
	}
	index := m.c.addNode(set, group)
	if index < 0 {
		return 0, fmt.Errorf("no more nodes can be started")
	}
	return index, nil
}

func (m manager) Failover(nodes []int, graceful bool) error {
	if graceful {
		if err := m.c.change(func() error { return m.c.vacate(nodes) }); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		if err := m.c.Failover(n); err != nil {
			return err
		}
	}
	return m.c.change(func() error {
		for _, n := range nodes {
			m.c.nodes[n].failed = true
		}
		return nil
	})
}

// vacate gives the vbuckets of nodes to their replicas, with the data. It fails when one has none. The caller holds the
// mutex.
func (c *Cluster) vacate(nodes []int) error {
	next := map[*bucket]map[int][]int{}
	for _, b := range c.buckets {
		next[b] = map[int][]int{}
		for vb, row := range b.rows {
			if !slices.Contains(nodes, row[0]) {
				continue
			}
			i := slices.IndexFunc(row, func(n int) bool { return n >= 0 && !slices.Contains(nodes, n) })
			if i < 0 {
				return &management.Refusal{
					Status: 400, Text: "Failover cannot be done gracefully (would lose vbuckets).",
				}
			}
			row = slices.Clone(row)
			row[0], row[i] = row[i], row[0]
			next[b][vb] = row
		}
	}
	for b, rows := range next {
		for vb, row := range rows {
			b.setRow(vb, row)
		}
	}
	return nil
}

// Rebalance lets nodes that were failed over and are to be recovered join before.
func (m manager) Rebalance(leaving []int) error {
	c := m.c
	c.mu.Lock()
	var back []int
	for _, n := range c.nodes {
		if n.failed && n.recovery != "" && !slices.Contains(leaving, n.index) {
			back = append(back, n.index)
		}
	}
	c.mu.Unlock()
	for _, n := range back {
		if err := c.Respawn(n); err != nil {
			return err
		}
	}
	return c.rebalance(0, leaving...)
}

func (m manager) Eject(node int) error {
	return m.c.change(func() error {
		n := m.c.nodes[node]
		n.member, n.failed, n.recovery = memberOut, false, ""
		return nil
	})
}

func (m manager) Recover(node int, how string) error {
	return m.c.change(func() error {
		n := m.c.nodes[node]
		if !n.failed {
			return fmt.Errorf("node %d was not failed over", node)
		}
		n.recovery = how
		return nil
	})
}

func (m manager) SetGroup(node int, group string) {
	_ = m.c.change(func() error { // fails only when the cluster ends
		m.c.nodes[node].group = group
		return nil
	})
}

func (m manager) SetExternal(node int, external *management.External) {
	_ = m.c.change(func() error { // the same
		m.c.nodes[node].external = external
		return nil
	})
}

// AlternateAddress is where a node is found from outside of its network. Ports are by the names that the configuration
// has: kv, kvSSL, mgmt, n1ql and so on; without any the node's own ports are in force.
type AlternateAddress struct {
	Hostname string
	Ports    map[string]int
}

// SetAlternateAddress puts a node's address on the network "external" into the configuration, or takes it out with nil.
func (c *Cluster) SetAlternateAddress(node int, a *AlternateAddress) error {
	return c.change(func() error {
		n, err := c.node(node)
		if err != nil {
			return err
		}
		n.external = nil
		if a != nil {
			n.external = &management.External{Hostname: a.Hostname, Ports: maps.Clone(a.Ports)}
		}
		return nil
	})
}

// collection is the id of a collection that exists.
func (m manager) collection(p management.Place) (uint32, bool) {
	return host(m).Collection(p.Bucket, p.Scope, p.Collection)
}

func (m manager) Documents(p management.Place) []string {
	cid, ok := m.collection(p)
	if !ok {
		return nil
	}
	var keys []string
	for _, d := range m.c.Documents(p.Bucket) {
		if d.Collection == cid {
			keys = append(keys, d.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (m manager) Get(p management.Place, key string) (management.Document, bool) {
	cid, ok := m.collection(p)
	if !ok {
		return management.Document{}, false
	}
	res := host(m).Apply(p.Bucket, &store.Op{Opcode: memd.OpGet, Collection: cid, Key: []byte(key)})
	if res.Status != memd.StatusSuccess {
		return management.Document{}, false
	}
	return management.Document{
		ID: key, Value: res.Value, JSON: res.Datatype&memd.DatatypeJSON != 0, Flags: res.Flags, Expiry: res.Expiry,
		CAS: res.CAS, Rev: res.Rev,
	}, true
}

func (m manager) Put(p management.Place, key string, value []byte, flags uint32) error {
	return m.apply(p, &store.Op{
		Opcode: memd.OpSet, Key: []byte(key), Value: value, Flags: flags,
		Datatype: store.ValueType(value),
	})
}

func (m manager) Delete(p management.Place, key string) error {
	return m.apply(p, &store.Op{Opcode: memd.OpDelete, Key: []byte(key)})
}

func (m manager) apply(p management.Place, o *store.Op) error {
	cid, ok := m.collection(p)
	if !ok {
		return &management.Refusal{Status: 404, Text: "Collection with name " + p.Collection + " is not found"}
	}
	o.Collection = cid
	switch res := host(m).Apply(p.Bucket, o); res.Status {
	case memd.StatusSuccess, memd.StatusKeyNotFound:
		return nil
	default:
		return fmt.Errorf("%v", res.Status)
	}
}
