package mock

import (
	"net/http"
	"slices"
	"strings"
)

// What administrators do with accounts. A role is kept as it is written; what it allows is the administrator's roles
// for everything, and a bucket's name in its brackets for that bucket: data_reader for reading, any other for
// everything in it. Left out: groups, external users, the roles' details.

// account is what the management service knows about a user beyond the password.
type account struct{ fullName, roles string }

func (x *httpCall) listUsers() {
	if x.admin() {
		x.full(func(c *Cluster) any {
			all := []any{}
			for _, name := range sortedKeys(c.users) {
				all = append(all, c.described(name))
			}
			return all
		})
	}
}

// described is a user in the long form. The caller holds the mutex.
func (c *Cluster) described(name string) map[string]any {
	a := c.accounts[name]
	roles := []any{}
	text := a.roles
	if text == "" && c.users[name].admin {
		text = "admin"
	}
	if text == "" {
		var parts []string
		for _, b := range sortedKeys(c.users[name].buckets) {
			parts = append(parts, "bucket_full_access["+b+"]")
		}
		text = strings.Join(parts, ",")
	}
	for _, role := range splitRoles(text) {
		name, place, _ := strings.Cut(strings.TrimSuffix(role, "]"), "[")
		r := map[string]any{"role": name, "origins": []any{map[string]string{"type": "user"}}}
		for i, part := range strings.Split(place, ":") {
			if part != "" && i < 3 {
				r[[]string{"bucket_name", "scope_name", "collection_name"}[i]] = part
			}
		}
		roles = append(roles, r)
	}
	return map[string]any{
		"id": name, "domain": "local", "name": a.fullName, "roles": roles, "groups": []any{},
		"external_groups":      []any{},
		"password_change_date": "2024-01-01T00:00:00.000Z",
	}
}

// splitRoles splits a list at the commas outside of brackets.
func splitRoles(list string) []string {
	depth := 0
	return strings.FieldsFunc(list, func(r rune) bool {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		}
		return depth == 0 && (r == ',' || r == ' ')
	})
}

func (x *httpCall) getUser() {
	if !x.admin() || !x.local() {
		return
	}
	c, name := x.n.c, x.r.PathValue("user")
	c.mu.Lock()
	var body []byte
	if c.users[name] != nil {
		body = marshal(c.described(name))
	}
	c.mu.Unlock()
	if body == nil {
		x.refuse(http.StatusNotFound, "Unknown user.")
		return
	}
	x.send(body)
}

// local answers, and reports false, for users of another domain, which the mock does not have.
func (x *httpCall) local() bool {
	if x.r.PathValue("domain") == "local" {
		return true
	}
	x.refuse(http.StatusNotFound, "Unknown user.")
	return false
}

func (x *httpCall) putUser() {
	if !x.admin() || !x.local() {
		return
	}
	c, name, password := x.n.c, x.r.PathValue("user"), x.r.FormValue("password")
	roles := x.r.FormValue("roles")
	c.mu.Lock()
	old := c.users[name]
	if old == nil && password == "" {
		c.mu.Unlock()
		x.wrong("password", "The password must be supplied")
		return
	}
	if password == "" {
		password = old.password
	}
	u := newUser(name, password, bucketsOf(roles))
	u.admin = slices.ContainsFunc(splitRoles(roles), func(r string) bool {
		return strings.Contains(r, "[*]") || slices.Contains([]string{"admin", "cluster_admin", "bucket_admin"}, r)
	})
	u.reads = !slices.ContainsFunc(splitRoles(roles), func(r string) bool {
		return !strings.HasPrefix(r,
			"data_reader[")
	})
	if old != nil { // connections that are logged in keep the account, with what it may now
		*old = *u
		u = old
	}
	c.users[name] = u
	c.accounts[name] = account{x.r.FormValue("name"), roles}
	c.mu.Unlock()
	x.send(nil)
}

// bucketsOf are the buckets in the brackets of roles; none is said by an empty name, because no name means all.
func bucketsOf(roles string) []string {
	out := []string{""}
	for _, role := range splitRoles(roles) {
		if _, place, ok := strings.Cut(strings.TrimSuffix(role, "]"), "["); ok {
			bucket, _, _ := strings.Cut(place, ":")
			out = append(out, bucket)
		}
	}
	return out
}

func (x *httpCall) dropUser() {
	if !x.admin() || !x.local() {
		return
	}
	c, name := x.n.c, x.r.PathValue("user")
	c.mu.Lock()
	known := c.users[name] != nil
	delete(c.users, name)
	delete(c.accounts, name)
	c.mu.Unlock()
	if !known {
		x.refuse(http.StatusNotFound, "User was not found.")
		return
	}
	x.send(nil)
}

func (x *httpCall) changePassword() {
	password := x.r.FormValue("password")
	if password == "" {
		x.wrong("password", "The value must be supplied")
		return
	}
	if err := x.n.c.SetPassword(x.user.name, password); err != nil {
		x.refuse(http.StatusNotFound, map[string]string{"_": err.Error()})
		return
	}
	x.send(nil)
}
