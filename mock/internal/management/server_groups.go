package management

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net/http"
	"slices"
	"strings"
)

// zone is a server group, after menelaus_web_groups.erl. A group with nodes exists because they are in it; others are
// kept here.
type zone struct{ name, uuid string }

// zonesOf are all groups, those of nodes first.
func (s *State) zonesOf(c *Cluster) []zone {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.zones)
	for i := range c.Nodes {
		name := c.Nodes[i].Group
		if !slices.ContainsFunc(out, func(z zone) bool { return z.name == name }) {
			sum := md5.Sum([]byte(name))
			out = append(out, zone{name, hex.EncodeToString(sum[:])})
		}
	}
	s.zones = slices.Clone(out)
	return out
}

func (s *State) zone(c *Cluster, uuid string) *zone {
	for _, z := range s.zonesOf(c) {
		if z.uuid == uuid {
			return &z
		}
	}
	return nil
}

func (z *zone) uri() string { return "/pools/default/serverGroups/" + z.uuid }

// revision of the groups changes whenever they or their nodes do.
func revision(c *Cluster, zones []zone) string {
	text := fmt.Sprint(zones)
	for i := range c.Nodes {
		text += c.Nodes[i].Name + c.Nodes[i].Group
	}
	return fmt.Sprint(crc32.ChecksumIEEE([]byte(text)))
}

func (x *call) listZones() {
	c := x.cluster()
	zones, out := x.s.zonesOf(c), []object{}
	for _, z := range zones {
		nodes := []object{}
		for i := range c.Nodes {
			if c.Nodes[i].Group == z.name {
				nodes = append(nodes, c.Nodes[i].object(x.s, c))
			}
		}
		out = append(out, object{"name": z.name, "uri": z.uri(), "addNodeURI": z.uri() + "/addNode", "nodes": nodes})
	}
	x.send(object{"groups": out, "uri": "/pools/default/serverGroups?rev=" + revision(c, zones)})
}

// zoneName is the name of the form, or answers and reports false.
func (x *call) zoneName() (string, bool) {
	errs := fields{}
	var unknown []string
	for name := range x.form {
		if name != "name" {
			unknown = append(unknown, name)
		}
	}
	if unknown != nil {
		errs["_"] = "unknown parameters: " + strings.Join(unknown, ", ")
	}
	name, ok := x.given("name")
	trimmed := strings.TrimSpace(name)
	switch {
	case !ok:
		errs["name"] = "is missing"
	case trimmed == "":
		errs["name"] = "cannot be empty"
	case len(name) > 64:
		errs["name"] = "cannot be longer than 64 bytes"
	}
	for _, z := range x.s.zonesOf(x.cluster()) {
		if z.name == trimmed && z.uuid != x.value("zone") {
			errs["name"] = "already exists"
		}
	}
	if len(errs) > 0 {
		x.json(http.StatusBadRequest, errs)
		return "", false
	}
	return trimmed, true
}

func (x *call) createZone() {
	name, ok := x.zoneName()
	if !ok {
		return
	}
	sum := md5.Sum([]byte(name))
	x.s.mu.Lock()
	x.s.zones = append(x.s.zones, zone{name, hex.EncodeToString(sum[:])})
	x.s.mu.Unlock()
	x.send([]any{})
}

func (x *call) renameZone() {
	name, ok := x.zoneName()
	if !ok {
		return
	}
	c := x.cluster()
	old := x.s.zone(c, x.value("zone"))
	if old == nil {
		x.json(http.StatusNotFound, []any{})
		return
	}
	x.s.mu.Lock()
	for i := range x.s.zones {
		if x.s.zones[i].uuid == old.uuid {
			x.s.zones[i].name = name
		}
	}
	x.s.mu.Unlock()
	for i := range c.Nodes {
		if c.Nodes[i].Group == old.name {
			x.s.host.SetGroup(c.Nodes[i].Index, name)
		}
	}
	x.send([]any{})
}

func (x *call) dropZone() {
	c := x.cluster()
	z := x.s.zone(c, x.value("zone"))
	switch {
	case z == nil:
		x.json(http.StatusNotFound, []any{})
	case slices.ContainsFunc(c.Nodes, func(n Node) bool { return n.Group == z.name }):
		x.json(http.StatusBadRequest, fields{"_": "group is not empty"})
	default:
		x.s.mu.Lock()
		x.s.zones = slices.DeleteFunc(x.s.zones, func(o zone) bool { return o == *z })
		x.s.mu.Unlock()
		x.send([]any{})
	}
}

// assignZones puts every node into a group, in one step. The query names the revision that the client knows.
func (x *call) assignZones() {
	var want struct {
		Groups []struct {
			URI   string `json:"uri"`
			Nodes []struct {
				Name string `json:"otpNode"`
			} `json:"nodes"`
		} `json:"groups"`
	}
	if !x.body(&want) {
		return
	}
	c := x.cluster()
	zones := x.s.zonesOf(c)
	if x.r.URL.Query().Get("rev") != revision(c, zones) {
		x.json(http.StatusConflict, []any{})
		return
	}
	move := map[int]string{}
	good := len(want.Groups) == len(zones)
	for _, g := range want.Groups {
		i := slices.IndexFunc(zones, func(z zone) bool { return z.uri() == g.URI })
		if good = good && i >= 0; !good {
			break
		}
		for _, named := range g.Nodes {
			if n := c.node(named.Name); n != nil {
				move[n.Index] = zones[i].name
			}
		}
	}
	if !good || len(move) != len(c.Nodes) {
		x.json(http.StatusBadRequest, "Bad input")
		return
	}
	for index, name := range move {
		x.s.host.SetGroup(index, name)
	}
	x.send([]any{})
}
