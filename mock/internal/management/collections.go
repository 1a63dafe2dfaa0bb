package management

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// Scopes and collections, after menelaus_web_collections.erl.

func (x *call) getManifest() {
	text, _ := x.s.host.Manifest(x.value("bucket"))
	if text == nil {
		x.notFound()
		return
	}
	x.raw(text)
}

// hasCollections reports whether the bucket's type has collections, and answers otherwise.
func (x *call) hasCollections() (*Bucket, bool) {
	_, b := x.bucket()
	if b == nil {
		return nil, false
	}
	if b.Type == Memcached {
		x.text(http.StatusBadRequest, "Not allowed on this type of bucket")
		return nil, false
	}
	return b, true
}

func (x *call) createScope() {
	if _, ok := x.hasCollections(); !ok {
		return
	}
	name, errs := x.newName("name")
	if len(errs) > 0 {
		x.wrong(errs)
		return
	}
	x.change(ManifestChange{Do: Add, Scope: name})
}

func (x *call) dropScope() {
	if _, ok := x.hasCollections(); ok {
		x.change(ManifestChange{Do: Drop, Scope: x.value("scope")})
	}
}

func (x *call) createCollection() {
	b, ok := x.hasCollections()
	if !ok {
		return
	}
	name, errs := x.newName("name", "maxTTL", "history")
	c := ManifestChange{Do: Add, Scope: x.value("scope"), Collection: name}
	if !x.properties(b, &c, errs) {
		return
	}
	x.change(c)
}

func (x *call) changeCollection() {
	b, ok := x.hasCollections()
	if !ok {
		return
	}
	c := ManifestChange{Do: Modify, Scope: x.value("scope"), Collection: x.value("collection")}
	if !x.properties(b, &c, x.unsupported("maxTTL", "history")) {
		return
	}
	x.change(c)
}

func (x *call) dropCollection() {
	if _, ok := x.hasCollections(); ok {
		x.change(ManifestChange{Do: Drop, Scope: x.value("scope"), Collection: x.value("collection")})
	}
}

// change answers with the manifest's new uid.
func (x *call) change(c ManifestChange) {
	uid, err := x.s.host.ChangeManifest(x.value("bucket"), c)
	if err != nil {
		x.refuse(err)
		return
	}
	x.send(fields{"uid": strconv.FormatUint(uid, 16)})
}

// properties reads what a collection has beyond its name, and reports whether the form is right. It answers otherwise.
func (x *call) properties(b *Bucket, c *ManifestChange, errs fields) bool {
	if text, ok := x.given("maxTTL"); ok {
		v, wrong := isInt(-1, math.MaxInt32)(text)
		if wrong != "" {
			errs["maxTTL"] = wrong
		} else {
			ttl := int32(v.(int64)) // isInt's
			c.MaxTTL = &ttl
		}
	}
	if text, ok := x.given("history"); ok {
		v, wrong := isBool(text)
		if wrong != "" {
			errs["history"] = wrong
		} else {
			on, _ := v.(bool) // isBool's
			if on && b.Backend != Magma {
				x.text(http.StatusBadRequest, "Not allowed on this type of bucket")
				return false
			}
			c.History = &on
		}
	}
	if len(errs) > 0 {
		x.wrong(errs)
		return false
	}
	return true
}

// unsupported are errors for the fields of the form that are not among those named.
func (x *call) unsupported(known ...string) fields {
	errs := fields{}
	for name := range x.form {
		errs[name] = unsupportedKey
	}
	for _, name := range known {
		delete(errs, name)
	}
	return errs
}

// newName is the name of what is to be made; known are the fields that the form may have.
func (x *call) newName(known ...string) (string, fields) {
	errs := x.unsupported(known...)
	name, ok := x.given("name")
	if !ok {
		errs["name"] = mustBeSupplied
	} else if wrong := wrongName(name); wrong != "" {
		errs["name"] = wrong
	}
	return name, errs
}

const maxCollectionName = 251

func wrongName(name string) string {
	switch {
	case name == "" || len(name) > maxCollectionName:
		return fmt.Sprintf("Name length (%d) must be in the range from 1 to %d, inclusive", len(name),
			maxCollectionName)
	case strings.ContainsFunc(name, func(r rune) bool { return !nameRune(r) }):
		return "Can only contain characters A-Z, a-z, 0-9 and the following symbols _ - %"
	case strings.ContainsRune("_%", rune(name[0])):
		return "First character must not be _ or %"
	}
	return ""
}

// ensureManifest says whether all nodes have a manifest of at least the uid. Nodes of the mock have it at once, so
// there is nothing to wait for.
func (x *call) ensureManifest() {
	want, err := strconv.ParseUint(x.value("uid"), 16, 64)
	if err != nil {
		x.text(http.StatusBadRequest, "Invalid UID")
		return
	}
	if _, uid := x.s.host.Manifest(x.value("bucket")); uid < want {
		x.text(http.StatusGatewayTimeout, "timeout")
		return
	}
	x.done()
}

// setManifest replaces all scopes and collections by those of the body.
func (x *call) setManifest() {
	b, ok := x.hasCollections()
	if !ok {
		return
	}
	var want wantedManifest
	if !x.body(&want) {
		return
	}
	if valid := x.r.URL.Query().Get("validOnUid"); valid != "" {
		if _, uid := x.s.host.Manifest(b.Name); strconv.FormatUint(uid, 16) != valid {
			x.wrong(fields{"_": "validOnUid doesn't match the current manifest Uid"})
			return
		}
	}
	text, uid := x.s.host.Manifest(b.Name)
	for _, c := range want.changes(text) {
		next, err := x.s.host.ChangeManifest(b.Name, c)
		if err != nil {
			x.refuse(err)
			return
		}
		uid = next
	}
	x.send(fields{"uid": strconv.FormatUint(uid, 16)})
}
