package management

import (
	"encoding/json"
	"slices"
	"strings"
)

// role is a role that the server knows: from one version on, until another. places is what it can be limited to: 1 a
// bucket, 2 a scope, 3 a collection.
type role struct {
	id, name    string
	places      int
	from, until [2]int
}

// roles are those of menelaus_old_roles.erl and menelaus_roles.erl.
var roles = []role{
	{id: "admin", name: "Full Admin"},
	{id: "ro_admin", name: "Read-Only Admin"},
	{id: "security_admin", name: "Security Admin", from: [2]int{8, 0}},
	{id: "ro_security_admin", name: "Read-Only Security Admin", from: [2]int{8, 0}},
	{id: "security_admin_local", name: "Local User Security Admin", until: [2]int{8, 0}},
	{id: "security_admin_external", name: "External User Security Admin", until: [2]int{8, 0}},
	{id: "user_admin_local", name: "Local User Admin", from: [2]int{8, 0}},
	{id: "user_admin_external", name: "External User Admin", from: [2]int{8, 0}},
	{id: "cluster_admin", name: "Cluster Admin"},
	{id: "eventing_admin", name: "Eventing Full Admin"},
	{id: "backup_admin", name: "Backup Full Admin"},
	{id: "bucket_admin", name: "Bucket Admin", places: 1},
	{id: "scope_admin", name: "Manage Scopes", places: 2},
	{id: "bucket_full_access", name: "Application Access", places: 1},
	{id: "views_admin", name: "Views Admin", places: 1},
	{id: "views_reader", name: "Views Reader", places: 1},
	{id: "replication_admin", name: "XDCR Admin"},
	{id: "data_reader", name: "Data Reader", places: 3},
	{id: "data_writer", name: "Data Writer", places: 3},
	{id: "data_dcp_reader", name: "Data DCP Reader", places: 3},
	{id: "data_backup", name: "Data Backup & Restore", places: 1},
	{id: "data_monitoring", name: "Data Monitor", places: 3},
	{id: "fts_admin", name: "Search Admin", places: 1},
	{id: "fts_searcher", name: "Search Reader", places: 3},
	{id: "query_select", name: "Query Select", places: 3},
	{id: "query_update", name: "Query Update", places: 3},
	{id: "query_insert", name: "Query Insert", places: 3},
	{id: "query_delete", name: "Query Delete", places: 3},
	{id: "query_manage_index", name: "Query Manage Index", places: 3},
	{id: "query_list_index", name: "Query List Index", places: 3, from: [2]int{8, 0}},
	{id: "query_system_catalog", name: "Query System Catalog"},
	{id: "query_manage_system_catalog", name: "Query Manage System Catalog", from: [2]int{8, 0}},
	{id: "query_external_access", name: "Query CURL Access"},
	{id: "query_manage_global_functions", name: "Manage Global Functions"},
	{id: "query_execute_global_functions", name: "Execute Global Functions"},
	{id: "query_manage_functions", name: "Manage Scope Functions", places: 2},
	{id: "query_execute_functions", name: "Execute Scope Functions", places: 2},
	{id: "query_manage_global_external_functions", name: "Manage Global External Functions"},
	{id: "query_execute_global_external_functions", name: "Execute Global External Functions"},
	{id: "query_manage_external_functions", name: "Manage Scope External Functions", places: 2},
	{id: "query_execute_external_functions", name: "Execute Scope External Functions", places: 2},
	{id: "query_manage_sequences", name: "Manage Sequences", places: 2, from: [2]int{7, 6}},
	{id: "query_use_sequences", name: "Use Sequences", places: 2, from: [2]int{7, 6}},
	{id: "query_use_sequential_scans", name: "Query Use Sequential Scans", places: 3, from: [2]int{7, 6}},
	{id: "replication_target", name: "XDCR Inbound", places: 1},
	{id: "analytics_manager", name: "Analytics Manager", places: 1},
	{id: "analytics_reader", name: "Analytics Reader"},
	{id: "analytics_select", name: "Analytics Select", places: 3},
	{id: "analytics_admin", name: "Analytics Admin"},
	{id: "mobile_sync_gateway", name: "Sync Gateway", places: 1},
	{id: "sync_gateway_configurator", name: "Sync Gateway Architect", places: 3},
	{id: "sync_gateway_app", name: "Sync Gateway Application", places: 3},
	{id: "sync_gateway_app_ro", name: "Sync Gateway Application Read Only", places: 3},
	{id: "sync_gateway_replicator", name: "Sync Gateway Replicator", places: 3},
	{id: "sync_gateway_dev_ops", name: "Sync Gateway Dev Ops"},
	{id: "external_stats_reader", name: "External Stats Reader"},
	{id: "application_telemetry_writer", name: "Application Telemetry Writer", from: [2]int{8, 0}},
	{id: "eventing_manage_functions", name: "Manage Scope Functions", places: 2},
}

// placeNames are the members of a role's JSON for what it is limited to.
var placeNames = []string{"bucket_name", "scope_name", "collection_name"}

// in reports whether a version has the role.
func (r *role) in(v Version) bool {
	return v.At(r.from[0], r.from[1]) && (r.until == [2]int{} || !v.At(r.until[0], r.until[1]))
}

func (x *call) listRoles() {
	c, out := x.cluster(), []fields{}
	for i := range roles {
		r := &roles[i]
		if !r.in(c.Version) {
			continue
		}
		one := fields{"role": r.id, "name": r.name, "desc": r.name + ", the role " + r.id + " of the server"}
		for _, name := range placeNames[:r.places] {
			one[name] = "*"
		}
		out = append(out, one)
	}
	x.send(out)
}

// grant is a role that an account has, with what it is limited to; "*" is everything.
type grant struct {
	role   string
	places []string
}

// text is the grant as forms have it.
func (g grant) text() string {
	if len(g.places) == 0 {
		return g.role
	}
	return g.role + "[" + strings.Join(g.places, ":") + "]"
}

func (g grant) object() object {
	out := object{"role": g.role}
	for i, place := range g.places {
		out[placeNames[i]] = place
	}
	return out
}

// parseGrants reads a list of roles, with commas outside of brackets between them. bad are those that do not exist, or
// are limited to what does not exist.
func (x *call) parseGrants(c *Cluster, list string) (out []grant, bad []string) {
	for _, text := range splitRoles(list) {
		g, ok := x.parseGrant(c, text)
		if !ok {
			bad = append(bad, text)
			continue
		}
		if !slices.ContainsFunc(out, func(o grant) bool { return o.text() == g.text() }) {
			out = append(out, g)
		}
	}
	return out, bad
}

func (x *call) parseGrant(c *Cluster, text string) (grant, bool) {
	id, inside, limited := strings.Cut(text, "[")
	g := grant{role: strings.TrimSpace(id)}
	i := slices.IndexFunc(roles, func(r role) bool { return r.id == g.role })
	if i < 0 || !roles[i].in(c.Version) || limited != strings.HasSuffix(text, "]") || limited != (roles[i].places > 0) {
		return g, false
	}
	if !limited {
		return g, true
	}
	g.places = strings.Split(strings.TrimSuffix(inside, "]"), ":")
	if len(g.places) > roles[i].places {
		return g, false
	}
	for len(g.places) < roles[i].places {
		g.places = append(g.places, "*")
	}
	return g, x.exists(c, g.places)
}

// exists reports whether there are a bucket, scope and collection of these names.
func (x *call) exists(c *Cluster, places []string) bool {
	if places[0] == "*" {
		return true
	}
	if c.bucket(places[0]) == nil {
		return false
	}
	if len(places) == 1 || places[1] == "*" {
		return true
	}
	var m wantedManifest
	text, _ := x.s.host.Manifest(places[0])
	_ = json.Unmarshal(text, &m) // the host's own
	scope := m.names()[places[1]]
	return scope != nil && (len(places) == 2 || places[2] == "*" || scope[places[2]])
}

// splitRoles splits a list at the commas outside of brackets.
func splitRoles(list string) []string {
	depth := 0
	parts := strings.FieldsFunc(list, func(r rune) bool {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		}
		return depth == 0 && r == ','
	})
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return slices.DeleteFunc(parts, func(p string) bool { return p == "" })
}

// rightsOf is what roles allow in the mock, see Rights.
func rightsOf(grants []grant) Rights {
	r := Rights{Reads: true}
	for _, g := range grants {
		switch g.role {
		case "admin", "cluster_admin":
			r.Admin = true
		case "ro_admin", "security_admin", "ro_security_admin", "security_admin_local", "security_admin_external",
			"user_admin_local", "user_admin_external":
			r.Looks = true
		}
		if len(g.places) > 0 {
			if r.Reads = r.Reads && g.role == "data_reader"; !slices.Contains(r.Buckets, g.places[0]) {
				r.Buckets = append(r.Buckets, g.places[0])
			}
		}
	}
	r.Reads = r.Reads && !r.Admin && len(r.Buckets) > 0
	return r
}

// grants are roles that allow what an account of the cluster's options may do.
func (r *Rights) grants() []grant {
	if r.Admin {
		return []grant{{role: "admin"}}
	}
	var out []grant
	if r.Looks {
		out = append(out, grant{role: "ro_admin"})
	}
	for _, b := range r.Buckets {
		if b == "" {
			continue
		}
		g := grant{"bucket_full_access", []string{b}}
		if r.Reads {
			g = grant{"data_reader", []string{b, "*", "*"}}
		}
		out = append(out, g)
	}
	return out
}
