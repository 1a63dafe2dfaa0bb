package management

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Accounts and groups, after menelaus_web_rbac.erl.

const (
	local    = "local"
	external = "external"
	builtIn  = "admin" // the domain of the administrator that every cluster has
)

// identity names an account.
type identity struct{ domain, name string }

// person is what the service knows of an account beyond its password.
type person struct {
	identity
	fullName string
	grants   []grant
	groups   []string
	uuid     string
	since    time.Time // of its password; zero for external ones
}

// group is a group of accounts.
type group struct {
	name, ldap  string
	description *string
	grants      []grant
}

// people are the accounts of both domains, by domain and name: those made over HTTP and those of the cluster's options,
// but for the built-in administrator.
func (x *call) people() []person {
	c := x.cluster()
	accounts := x.s.host.Accounts()
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	var out []person
	for _, p := range x.s.users {
		out = append(out, *p)
	}
	for i := range accounts {
		a := &accounts[i]
		id := identity{local, a.Name}
		if a.External {
			id.domain = external
		}
		if a.Name == c.Admin && !a.External || x.s.users[id] != nil {
			continue
		}
		out = append(out, person{identity: id, grants: a.grants(), since: x.s.started})
	}
	slices.SortFunc(out, func(a, b person) int {
		return strings.Compare(a.name+"\x00"+a.domain, b.name+"\x00"+b.domain)
	})
	return out
}

func (x *call) person(id identity) *person {
	all := x.people()
	for i := range all {
		if all[i].identity == id {
			return &all[i]
		}
	}
	return nil
}

// object is the account in JSON. A role says where it comes from: the user or a group.
func (p *person) object(s *State) object {
	origins := map[string][]object{}
	var order []grant
	add := func(origin object, grants []grant) {
		for _, g := range grants {
			if origins[g.text()] == nil {
				order = append(order, g)
			}
			origins[g.text()] = append(origins[g.text()], origin)
		}
	}
	add(object{"type": "user"}, p.grants)
	s.mu.Lock()
	for _, name := range p.groups {
		if g := s.groups[name]; g != nil {
			add(object{"type": "group", "name": name}, g.grants)
		}
	}
	s.mu.Unlock()
	all := []object{}
	for _, g := range order {
		one := g.object()
		one["origins"] = origins[g.text()]
		all = append(all, one)
	}
	out := object{
		"id": p.name, "domain": p.domain, "roles": all, "groups": append([]string{}, p.groups...),
		"external_groups": []string{}, "name": p.fullName,
	}
	if p.uuid != "" {
		out["uuid"] = p.uuid
	}
	if p.domain == local {
		out["password_change_date"] = p.since.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return out
}

func (x *call) whoami() {
	id := identity{x.caller.Domain, x.caller.Name}
	if id.domain == builtIn {
		x.send(object{"id": id.name, "domain": id.domain, "roles": []fields{{"role": "admin"}}})
		return
	}
	p := x.person(id)
	if p == nil { // gone since the request began
		p = &person{identity: id}
	}
	x.send(p.object(x.s))
}

const (
	unknownUser   = "Unknown user."
	unknownDomain = "Unknown user domain."
	unknownGroup  = "Unknown group."
)

// domain reports whether the path names a domain that there is, and answers otherwise.
func (x *call) domain() (string, bool) {
	d := x.value("domain")
	if d != local && d != external {
		x.json(http.StatusNotFound, unknownDomain)
		return "", false
	}
	return d, true
}

// listUsers lists the accounts of a domain or of both, whole or in pages.
func (x *call) listUsers() {
	want := ""
	if _, named := x.values["domain"]; named {
		d, ok := x.domain()
		if !ok {
			return
		}
		want = d
	}
	all := []object{}
	for _, p := range x.people() {
		if want == "" || p.domain == want {
			all = append(all, p.object(x.s))
		}
	}
	x.paged("users", all)
}

// paged sends a list, or one page of it with a total when the query asks for pages.
func (x *call) paged(name string, all []object) {
	query := x.r.URL.Query()
	text := query.Get("pageSize")
	if text == "" {
		x.send(all)
		return
	}
	size, fault := parseNumber(text, 1, 100)
	if fault != numberFine {
		x.wrong(fields{"pageSize": "The value must be in range from 1 to 100 (inclusive)"})
		return
	}
	first := 0
	if from := query.Get("startFrom"); from != "" {
		first = slices.IndexFunc(all, func(o object) bool { id, _ := o["id"].(string); return id >= from })
		if first < 0 {
			first = len(all)
		}
	}
	end := min(first+int(size), len(all))
	x.send(object{"total": len(all), "links": object{}, "skipped": first, name: all[first:end]})
}

func (x *call) getUser() {
	d, ok := x.domain()
	if !ok {
		return
	}
	p := x.person(identity{d, x.value("user")})
	if p == nil {
		x.json(http.StatusNotFound, unknownUser)
		return
	}
	x.send(p.object(x.s))
}

// wrongID is what is wrong about the name of a user or group.
func wrongID(what, name string) string {
	switch {
	case name == "":
		return what + " must not be empty"
	case len(name) > 128:
		return what + " may not exceed 128 characters"
	case name[0] == '@':
		return what + " cannot start with '@'"
	case strings.ContainsFunc(name, func(r rune) bool {
		return r <= 32 || r == 127 || strings.ContainsRune("()<>,;:\\\"/[]?={}", r)
	}):
		return what + " must not contain spaces, control or any of ()<>,;:\\\"/[]?={} characters and must be valid utf8"
	}
	return ""
}

const badRoles = "Cannot assign roles to user because the following roles are unknown, malformed or role parameters " +
	"are undefined: ["

// putUser makes an account or changes all of it but its password, which stays when the form has none.
func (x *call) putUser() {
	d, ok := x.domain()
	if !ok {
		return
	}
	id := identity{d, x.value("user")}
	if wrong := wrongID("Username", id.name); wrong != "" {
		x.wrong(fields{"_": wrong})
		return
	}
	c, old := x.cluster(), x.person(id)
	errs := x.unsupported("name", "password", "roles", "groups", "locked", "temporaryPassword")
	next := person{identity: id, fullName: x.form.Get("name"), uuid: strconv.FormatInt(time.Now().UnixNano(), 16)}
	var bad []string
	if next.grants, bad = x.parseGrants(c, x.form.Get("roles")); bad != nil {
		errs["roles"] = badRoles + strings.Join(bad, ",") + "]"
	}
	next.groups = x.groupsOf(errs)
	password, given := x.given("password")
	switch {
	case d == external && given:
		errs["password"] = unsupportedKey
	case given:
		if wrong := x.s.wrongPassword(password); wrong != "" {
			errs["password"] = wrong
		}
		next.since = time.Now()
	case old == nil && d == local:
		errs["password"] = "Password is required for new user."
	case old != nil:
		next.since = old.since
	}
	if len(errs) > 0 {
		x.wrong(errs)
		return
	}
	if old != nil && old.uuid != "" {
		next.uuid = old.uuid
	}
	x.store(&next, password, given)
	x.send("")
}

// store keeps an account and tells the host what it may do.
func (x *call) store(p *person, password string, given bool) {
	x.s.mu.Lock()
	x.s.users[p.identity] = p
	account := x.s.account(p)
	x.s.mu.Unlock()
	if !given {
		x.s.host.SetAccount(account, nil)
		return
	}
	x.s.host.SetAccount(account, &password)
}

// account is what a person may do by roles and groups. The caller holds the mutex.
func (s *State) account(p *person) *Account {
	grants := slices.Clone(p.grants)
	for _, name := range p.groups {
		if g := s.groups[name]; g != nil {
			grants = append(grants, g.grants...)
		}
	}
	return &Account{Name: p.name, External: p.domain == external, Rights: rightsOf(grants)}
}

// groupsOf are the groups of the form, which must exist.
func (x *call) groupsOf(errs fields) []string {
	var out, bad []string
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	for _, name := range x.list("groups") {
		if name = strings.TrimSpace(name); x.s.groups[name] == nil {
			bad = append(bad, name)
		}
		out = append(out, name)
	}
	if bad != nil {
		errs["groups"] = "Groups do not exist: " + strings.Join(bad, ",")
	}
	return out
}

func (x *call) dropUser() {
	d, ok := x.domain()
	if !ok {
		return
	}
	id := identity{d, x.value("user")}
	if x.person(id) == nil {
		x.json(http.StatusNotFound, "User was not found.")
		return
	}
	x.s.mu.Lock()
	delete(x.s.users, id)
	x.s.mu.Unlock()
	for _, a := range x.s.host.Accounts() {
		if a.Name == id.name && a.External == (d == external) {
			x.s.host.DropAccount(id.name)
		}
	}
	x.send("")
}

// wrongPassword is what the password policy says about a password.
func (s *State) wrongPassword(password string) string {
	policy := s.page("/settings/passwordPolicy")
	least := 0
	switch n := policy["minLength"].(type) {
	case int:
		least = n
	case int64:
		least = int(n)
	}
	if len(password) < least {
		return "The password must be at least " + strconv.Itoa(least) + " characters long."
	}
	return ""
}

// changePassword changes the caller's own password.
func (x *call) changePassword() {
	password, ok := x.given("password")
	switch {
	case !ok:
		x.wrong(fields{"password": mustBeSupplied})
	case x.caller.Domain == external:
		x.json(http.StatusNotFound, "Changing of password is not allowed for this user.")
	default:
		if wrong := x.s.wrongPassword(password); wrong != "" {
			x.wrong(fields{"password": wrong})
			return
		}
		x.s.setPassword(x.caller.Name, password)
		x.done()
	}
}

// setPassword changes the password of a local account and nothing else.
func (s *State) setPassword(name, password string) {
	for _, a := range s.host.Accounts() {
		if a.Name == name && !a.External {
			s.host.SetAccount(&a, &password)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.users[identity{local, name}]; p != nil {
		next := *p
		next.since = time.Now()
		s.users[p.identity] = &next
	}
}
