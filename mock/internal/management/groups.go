package management

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// object is the group in JSON.
func (g *group) object() object {
	all := []object{}
	for _, r := range g.grants {
		all = append(all, r.object())
	}
	out := object{"id": g.name, "roles": all}
	if g.ldap != "" {
		out["ldap_group_ref"] = g.ldap
	}
	if g.description != nil {
		out["description"] = *g.description
	}
	return out
}

func (x *call) listGroups() {
	x.s.mu.Lock()
	all := []object{}
	for _, name := range slices.Sorted(maps.Keys(x.s.groups)) {
		all = append(all, x.s.groups[name].object())
	}
	x.s.mu.Unlock()
	x.paged("groups", all)
}

func (x *call) getGroup() {
	x.s.mu.Lock()
	g := x.s.groups[x.value("group")]
	x.s.mu.Unlock()
	if g == nil {
		x.json(http.StatusNotFound, unknownGroup)
		return
	}
	x.send(g.object())
}

// putGroup makes a group or changes all of it.
func (x *call) putGroup() {
	name := x.value("group")
	if wrong := wrongID("Group name", name); wrong != "" {
		x.wrong(fields{"_": wrong})
		return
	}
	errs := x.unsupported("description", "roles", "ldap_group_ref")
	g := &group{name: name, ldap: x.form.Get("ldap_group_ref")}
	if text, ok := x.given("description"); ok {
		g.description = &text
	}
	list, ok := x.given("roles")
	if !ok {
		errs["roles"] = mustBeSupplied
	}
	var bad []string
	if g.grants, bad = x.parseGrants(x.cluster(), list); bad != nil {
		errs["roles"] = badRoles + strings.Join(bad, ",") + "]"
	}
	if g.ldap != "" && !strings.Contains(g.ldap, "=") {
		errs["ldap_group_ref"] = "Should be valid LDAP distinguished name"
	}
	if len(errs) > 0 {
		x.wrong(errs)
		return
	}
	x.s.mu.Lock()
	x.s.groups[name] = g
	x.s.mu.Unlock()
	x.applyGroup(name)
	x.send("")
}

func (x *call) dropGroup() {
	name := x.value("group")
	x.s.mu.Lock()
	known := x.s.groups[name] != nil
	delete(x.s.groups, name)
	x.s.mu.Unlock()
	if !known {
		x.json(http.StatusNotFound, "Group was not found.")
		return
	}
	x.applyGroup(name)
	x.send("")
}

// applyGroup tells the host what the members of a group may do now.
func (x *call) applyGroup(name string) {
	var changed []*Account
	x.s.mu.Lock()
	gone := x.s.groups[name] == nil
	for id, p := range x.s.users {
		if !slices.Contains(p.groups, name) {
			continue
		}
		if gone {
			next := *p
			next.groups = slices.DeleteFunc(slices.Clone(p.groups), func(g string) bool { return g == name })
			p = &next
			x.s.users[id] = p
		}
		changed = append(changed, x.s.account(p))
	}
	x.s.mu.Unlock()
	for _, a := range changed {
		x.s.host.SetAccount(a, nil)
	}
}
