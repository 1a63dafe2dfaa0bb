package management

import (
	"strings"
)

// A permission is an object and an operation, "cluster.bucket[default].settings!read", as in ns_server's
// menelaus_roles.erl. The mock knows only four kinds of accounts, see Rights.

const (
	login     = "login"     // any account
	everybody = "everybody" // also without credentials
)

// commonReads are what every account may read.
var commonReads = map[string]bool{
	"cluster.pools": true, "cluster.bucket[.].settings": true, "cluster.bucket[.].stats": true,
	"cluster.app_telemetry": true,
}

// dataObjects are the parts of a bucket in which an account that may use the bucket may do everything.
var dataObjects = []string{"data", "views", "collections", "n1ql", "fts", "analytics", "xdcr"}

// may reports whether the caller has a permission.
func (c *Caller) may(permission string) bool {
	if permission == everybody {
		return true
	}
	if c.Anonymous() {
		return false
	}
	if permission == login || c.Admin {
		return true
	}
	what, operation, _ := strings.Cut(permission, "!")
	bucket, part := bucketOf(what)
	if c.Looks && operation == "read" && !strings.HasPrefix(part, "data.docs") {
		return true
	}
	if operation == "read" && commonReads[what] {
		return true
	}
	if bucket == "" || !c.holds(bucket) {
		return false
	}
	if operation == "read" {
		return true
	}
	if part == "" && operation == "flush" {
		return !c.Reads
	}
	for _, o := range dataObjects {
		if !c.Reads && (part == o || strings.HasPrefix(part, o+".")) {
			return true
		}
	}
	return false
}

// uses reports whether the account may use the bucket in some way.
func (r *Rights) uses(bucket string) bool { return r.Admin || r.Looks || r.holds(bucket) }

// holds reports whether a role of the account is about the bucket.
func (r *Rights) holds(bucket string) bool {
	for _, b := range r.Buckets {
		if b == bucket || b == "*" {
			return true
		}
	}
	return false
}

// bucketOf is the bucket that an object of a permission is about, and the part of it: empty for an object of another
// kind.
func bucketOf(what string) (bucket, part string) {
	for _, kind := range []string{"cluster.bucket[", "cluster.scope[", "cluster.collection["} {
		place, ok := strings.CutPrefix(what, kind)
		if !ok {
			continue
		}
		name, tail, _ := strings.Cut(place, "]")
		name, _, _ = strings.Cut(name, ":")
		return name, strings.TrimPrefix(tail, ".")
	}
	return "", ""
}

// checkPermissions says for each permission of a list whether the caller has it.
func (x *call) checkPermissions(text string) {
	if strings.TrimSpace(text) == "" {
		x.json(400, "Request body should not be empty.")
		return
	}
	out := map[string]bool{}
	var malformed []string
	for p := range strings.SplitSeq(text, ",") {
		p = strings.TrimSpace(p)
		what, operation, ok := strings.Cut(p, "!")
		if !ok || operation == "" || strings.Contains(operation, "!") || !strings.HasPrefix(what, "cluster") {
			malformed = append(malformed, p)
			continue
		}
		out[p] = x.caller.may(p)
	}
	if malformed != nil {
		x.json(400, "Malformed permissions: ["+strings.Join(malformed, ",")+"].")
		return
	}
	x.send(out)
}
