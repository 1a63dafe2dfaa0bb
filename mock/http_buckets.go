package mock

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/memd"
)

// What administrators do with buckets. Left out: everything about memory, storage backends, encryption and sample data.

// refuse answers with a status and a JSON object of errors, each under its field's name.
func (x *httpCall) refuse(status int, body any) {
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(status)
	_, _ = x.w.Write(marshal(body)) // the client may have left
}

func (x *httpCall) wrong(field, reason string) {
	x.refuse(http.StatusBadRequest, map[string]any{"errors": map[string]string{field: reason}})
}

// admin answers, and reports false, when the user is no administrator.
func (x *httpCall) admin() bool {
	if !x.user.admin {
		x.refuse(http.StatusForbidden, map[string]any{
			"message":     "Forbidden. User needs the following permissions",
			"permissions": []string{"cluster.admin!write"},
		})
	}
	return x.user.admin
}

var durabilityLevels = map[string]memd.DurabilityLevel{
	"none": memd.DurabilityNone, "majority": memd.DurabilityMajority,
	"majorityAndPersistActive": memd.DurabilityMajorityAndPersistToActive,
	"persistToMajority":        memd.DurabilityPersistToMajority,
}

// createBucket makes a bucket of a form.
func (x *httpCall) createBucket() {
	if !x.admin() {
		return
	}
	name := x.r.FormValue("name")
	if name == "" {
		x.wrong("name", "Bucket name needs to be specified")
		return
	}
	if quota, err := strconv.Atoi(x.r.FormValue("ramQuotaMB")); err != nil || quota < 100 {
		x.wrong("ramQuota", "RAM quota cannot be less than 100 MB")
		return
	}
	var opts []BucketOption
	switch kind := x.r.FormValue("bucketType"); kind {
	case "", "couchbase", "membase":
	case "ephemeral":
		opts = append(opts, Ephemeral())
	case "memcached":
		opts = append(opts, Memcached())
	default:
		x.wrong("bucketType", "invalid bucket type")
		return
	}
	if s := x.r.FormValue("replicaNumber"); s != "" {
		replicas, err := strconv.Atoi(s)
		if err != nil || replicas < 0 || replicas > maxReplicas {
			x.wrong("replicaNumber", "Replica number must be equal to 0, 1, 2 or 3.")
			return
		}
		opts = append(opts, WithReplicas(replicas))
	}
	if x.r.FormValue("conflictResolutionType") == "lww" {
		opts = append(opts, ResolveByTime())
	}
	if mode := x.r.FormValue("compressionMode"); mode != "" {
		opts = append(opts, Compression(mode))
	}
	if s := x.r.FormValue("durabilityMinLevel"); s != "" {
		level, ok := durabilityLevels[s]
		if !ok {
			x.wrong("durability_min_level", "Durability minimum level must be one of none, majority, "+
				"majorityAndPersistActive, persistToMajority")
			return
		}
		opts = append(opts, WithDurability(level))
	}
	c := x.n.c
	c.mu.Lock()
	exists := c.buckets[name] != nil
	c.mu.Unlock()
	if exists {
		x.wrong("name", "Bucket with given name already exists")
		return
	}
	if err := c.CreateBucket(name, 0, opts...); err != nil {
		x.wrong("name", strings.TrimPrefix(err.Error(), "mock: "))
		return
	}
	x.setFlushable(name, x.r.FormValue("flushEnabled") == "1")
	x.w.WriteHeader(http.StatusAccepted)
}

// setFlushable says whether a bucket may be flushed over HTTP. Buckets of options may.
func (x *httpCall) setFlushable(name string, may bool) {
	c := x.n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.buckets[name]; b != nil {
		c.guarded[b.uuid] = !may
	}
}

func (x *httpCall) updateBucket() {
	if !x.admin() {
		return
	}
	if s := x.r.FormValue("flushEnabled"); s != "" {
		x.setFlushable(x.r.PathValue("bucket"), s == "1")
	}
	x.send(nil)
}

func (x *httpCall) dropBucket() {
	if !x.admin() {
		return
	}
	if err := x.n.c.DropBucket(x.r.PathValue("bucket")); err != nil {
		x.refuse(http.StatusNotFound, map[string]string{"_": err.Error()})
		return
	}
	x.send(nil)
}

func (x *httpCall) flushBucket() {
	c := x.n.c
	c.mu.Lock()
	b := c.buckets[x.r.PathValue("bucket")]
	guarded := b != nil && c.guarded[b.uuid]
	c.mu.Unlock()
	if guarded {
		x.refuse(http.StatusBadRequest, map[string]string{"_": "Flush is disabled for the bucket"})
		return
	}
	if err := c.Flush(x.r.PathValue("bucket")); err != nil {
		x.refuse(http.StatusNotFound, map[string]string{"_": err.Error()})
		return
	}
	x.send(nil)
}

// designDocuments lists the design documents of a bucket.
func (x *httpCall) designDocuments() {
	rows := []any{}
	for _, d := range x.n.c.services.Designs(x.r.PathValue("bucket")) {
		rows = append(rows, map[string]any{"doc": map[string]any{
			"meta": map[string]string{"id": "_design/" + d.Name, "rev": strconv.Itoa(d.Rev) + "-mock"},
			"json": json.RawMessage(d.JSON),
		}})
	}
	x.sendJSON(map[string]any{"rows": rows})
}

// changeCollection sets the time to live of a collection's documents.
func (x *httpCall) changeCollection() {
	ttl, err := strconv.ParseInt(x.r.FormValue("maxTTL"), 10, 32)
	if err != nil || ttl < -1 {
		x.wrong("maxTTL", "maxTTL must be an integer between -1 and 2147483647")
		return
	}
	x.manage(func(b *bucket) error {
		if s := b.manifest.Scope(x.r.PathValue("scope")); s != nil {
			if col := s.Collection(x.r.PathValue("collection")); col != nil {
				col.MaxTTL = int32(ttl)
				b.manifest.UID++
				return nil
			}
		}
		return errNoCollection
	})
}

// underScope is what is posted below a scope's path: a new collection, or the wait for a manifest.
func (x *httpCall) underScope() {
	scope, what := x.r.PathValue("scope"), x.r.PathValue("what")
	switch {
	case scope == "@ensureManifest":
		uid, err := strconv.ParseUint(what, 16, 64)
		c := x.n.c
		c.mu.Lock()
		b := c.buckets[x.r.PathValue("bucket")]
		here := err == nil && b != nil && b.manifest.UID >= uid
		c.mu.Unlock()
		if !here {
			x.refuse(http.StatusGatewayTimeout, map[string]string{"_": "Timed out waiting for the manifest"})
			return
		}
		x.send(nil)
	case what == "collections":
		x.createCollection()
	default:
		http.NotFound(x.w, x.r)
	}
}
