package management

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// What changes which nodes belong to the cluster, after menelaus_web_cluster.erl. Nodes are named as in otpNode.

// nodesOf are the nodes that a field of the form names, each field with one. It answers and reports false without any,
// or for one that is not in the cluster.
func (x *call) nodesOf(c *Cluster) ([]*Node, bool) {
	var out []*Node
	for _, name := range x.form["otpNode"] {
		n := c.node(name)
		if n == nil {
			x.text(http.StatusBadRequest, fmt.Sprintf("Unknown server given [%q]", name))
			return nil, false
		}
		out = append(out, n)
	}
	if out == nil {
		x.text(http.StatusBadRequest, "No server specified.")
	}
	return out, out != nil
}

func (x *call) failOver()         { x.takeOut(false) }
func (x *call) gracefulFailOver() { x.takeOut(true) }

func (x *call) takeOut(graceful bool) {
	c := x.cluster()
	nodes, ok := x.nodesOf(c)
	if !ok {
		return
	}
	var indexes []int
	for _, n := range nodes {
		switch {
		case n.Membership != Active:
			x.text(http.StatusBadRequest, "Inactive server given.")
			return
		case graceful && !slices.Contains(n.Services, "kv"):
			x.text(http.StatusBadRequest, "Failover cannot be done gracefully for a node without data service. "+
				"Use hard failover.")
			return
		}
		indexes = append(indexes, n.Index)
	}
	active := 0
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Membership == Active && slices.Contains(n.Services, "kv") &&
			!slices.Contains(indexes, n.Index) {
			active++
		}
	}
	if active == 0 {
		x.text(http.StatusBadRequest, "Last active node cannot be failed over.")
		return
	}
	kind := "failover"
	if graceful {
		kind = "graceful_failover"
	}
	x.s.count(kind + "_start")
	if err := x.s.host.Failover(indexes, graceful); err != nil {
		x.text(http.StatusBadRequest, err.Error())
		return
	}
	x.s.count(kind+"_success", "failover", "failover_complete", "failover_node")
	x.done()
}

// addNode starts a new node of the mock. The host that the form names is not looked for.
func (x *call) addNode() {
	var errs []string
	if strings.TrimSpace(x.form.Get("hostname")) == "" {
		errs = append(errs, "Hostname is required.")
	}
	_, named := x.given("user")
	_, secret := x.given("password")
	if !(named && secret) && x.form.Get("clientCertAuth") != "true" {
		errs = append(errs, "Missing required parameter.")
	}
	services := x.list("services")
	if len(services) > 0 {
		if wrong := wrongServices(strings.Join(services, ",")); wrong != "" {
			errs = append(errs, wrong)
		}
	}
	if errs != nil {
		x.json(http.StatusBadRequest, errs)
		return
	}
	group := ""
	if id := x.value("zone"); id != "" {
		z := x.s.zone(x.cluster(), id)
		if z == nil {
			x.json(http.StatusNotFound, []string{"Could not find group with uuid: " + id})
			return
		}
		group = z.name
	}
	index, err := x.s.host.AddNode(services, group)
	if err != nil {
		x.json(http.StatusBadRequest, []string{err.Error()})
		return
	}
	for _, n := range x.cluster().Nodes {
		if n.Index == index {
			x.send(fields{"otpNode": n.Name})
			return
		}
	}
	x.send(fields{})
}

// eject removes a node that a rebalance has not made active, or that was failed over.
func (x *call) eject() {
	name, ok := x.given("otpNode")
	if name == "Self" {
		name = "self"
	}
	n := x.cluster().node(name)
	switch {
	case !ok:
		x.text(http.StatusBadRequest, "Bad Request\n")
	case n == nil:
		x.text(http.StatusBadRequest, "Server does not exist.\n")
	case n.Membership == Active:
		x.text(http.StatusBadRequest, "Cannot remove active server.\n")
	default:
		x.finish(x.s.host.Eject(n.Index))
	}
}

// rebalance spreads the vbuckets. The form names all nodes that there are, so that a client that does not know them all
// changes nothing.
func (x *call) rebalance() {
	c := x.cluster()
	known, ejected := x.list("knownNodes"), x.list("ejectedNodes")
	if len(known) == 0 {
		x.json(http.StatusBadRequest, object{"empty_known_nodes": 1})
		return
	}
	match := len(slices.Compact(slices.Sorted(slices.Values(known)))) == len(c.Nodes)
	for _, name := range append(slices.Clone(known), ejected...) {
		match = match && c.node(name) != nil
	}
	if !match {
		x.json(http.StatusBadRequest, object{"mismatch": 1})
		return
	}
	var leaving []int
	stay := 0
	for i := range c.Nodes {
		n := &c.Nodes[i]
		switch {
		case slices.Contains(ejected, n.Name) || n.Membership == InactiveFailed:
			leaving = append(leaving, n.Index)
		case n.Up && slices.Contains(n.Services, "kv"):
			stay++
		case !n.Up:
			x.text(http.StatusServiceUnavailable, "Cannot contact the following nodes: ['"+n.Name+"']")
			return
		}
	}
	if stay == 0 {
		x.json(http.StatusBadRequest, object{"noKVNodesLeft": 1})
		return
	}
	x.s.count("rebalance_start")
	if err := x.s.host.Rebalance(leaving); err != nil {
		x.text(http.StatusBadRequest, err.Error())
		return
	}
	x.s.count("rebalance_success")
	if c.Version.At(7, 6) {
		x.send(fields{"rebalance_id": c.UUID})
		return
	}
	x.done()
}

const badNode = "invalid node name or node can't be used for delta recovery"

func (x *call) reAdd() { x.recover("full") }

func (x *call) setRecovery() { x.recover(x.form.Get("recoveryType")) }

// recover lets a node that was failed over come back with the next rebalance.
func (x *call) recover(kind string) {
	errs := fields{}
	if kind != "full" && kind != "delta" {
		errs["recoveryType"] = "recovery type must be either 'delta' or 'full'"
	}
	n := x.cluster().node(x.form.Get("otpNode"))
	if n == nil || n.Membership == Active || n.Membership == InactiveAdded && n.Recovery == "" {
		errs["otpNode"] = badNode
	}
	if len(errs) > 0 {
		x.json(http.StatusBadRequest, errs)
		return
	}
	if err := x.s.host.Recover(n.Index, kind); err != nil {
		x.json(http.StatusBadRequest, fields{"otpNode": badNode})
		return
	}
	x.send([]any{})
}

// reFailOver ends a recovery.
func (x *call) reFailOver() {
	n := x.cluster().node(x.form.Get("otpNode"))
	if n == nil || n.Recovery == "" || x.s.host.Recover(n.Index, "") != nil {
		x.answer(http.StatusBadRequest, jsonKind, nil)
		return
	}
	x.done()
}

func (x *call) rebalanceProgress() { x.send(fields{"status": "none"}) }

func (x *call) listTasks() {
	x.send([]object{{
		"type": "rebalance", "subtype": "rebalance", "status": "notRunning", "statusIsStale": false,
		"masterRequestTimedOut": false,
	}})
}
