package mock

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// host answers what the services ask of the cluster.
type host struct{ c *Cluster }

func (h host) UUID() string { return h.c.uuid }

func (h host) ServiceAddr(node int, s Service) string { return h.c.Node(node).ServiceAddr(s) }

func (h host) Capable(service, capability string) bool {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	return slices.Contains(h.c.serviceCapabilities()[service], capability)
}

func (h host) Scans(node int, name string) (scans bool) {
	n := h.c.Node(node)
	h.bucket(name, func(b *bucket) { scans = n.profile.has[factSequentialScans] && !b.ephemeral && !b.memcached() })
	return scans
}

func (h host) FunctionStates(node int) bool { return h.c.Node(node).profile.has[factFunctionStates] }

func (h host) Running(s Service) (nodes int) {
	for _, n := range h.c.Nodes() {
		if n.runs[s] && n.Membership() != "out" {
			nodes++
		}
	}
	return nodes
}

func (h host) Reasons(node int) bool { return h.c.Node(node).profile.has[factErrorReasons] }

func (h host) Parameter(node int, name string) bool { return h.c.Node(node).profile.parameters[name] }

func (h host) MissingKeyspace(node int) bool { return h.c.Node(node).profile.has[factMissingKeyspace] }

// bucket asks something of a bucket that exists. It reports false for any other.
func (h host) bucket(name string, f func(*bucket)) bool {
	return h.c.withBucket(name, f) == nil
}

func (h host) BucketUUID(name string) (uuid string) {
	h.bucket(name, func(b *bucket) { uuid = b.uuid })
	return uuid
}

func (h host) HasScope(name, scope string) (has bool) {
	h.bucket(name, func(b *bucket) { has = b.manifest.Scope(scope) != nil })
	return has
}

func (h host) Collection(name, scope, collection string) (id uint32, ok bool) {
	h.bucket(name, func(b *bucket) {
		if s := b.manifest.Scope(scope); s != nil {
			if c := s.Collection(collection); c != nil {
				id, ok = c.ID, true
			}
		}
	})
	return id, ok
}

func (h host) Documents(name string) []store.Document { return h.c.Documents(name) }

func (h host) Buckets() []string {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	return slices.Sorted(maps.Keys(h.c.buckets))
}

func (h host) Scopes(name string) (out []store.Scope) {
	h.bucket(name, func(b *bucket) {
		for _, s := range b.manifest.Scopes {
			s.Collections = slices.Clone(s.Collections)
			out = append(out, s)
		}
	})
	return out
}

func (h host) Apply(name string, o *store.Op) store.Result {
	res := store.Result{Status: memd.StatusNoBucket} // it may have been dropped since
	h.bucket(name, func(b *bucket) {
		if !b.memcached() {
			o.VBucket = VBucketOf(o.Key, len(b.rows))
			o.Node = b.rows[o.VBucket][0]
		}
		o.MaxTTL = b.maxTTL(o.Collection)
		res = b.store.Apply(o, h.c.now())
	})
	return res
}

func (h host) Define(verb string, path []string, maxTTL int32) error {
	bucketName, scope := path[0], path[1]
	switch {
	case verb == "CREATE" && len(path) == 2:
		_, err := h.c.CreateScope(bucketName, scope)
		return err
	case verb == "CREATE":
		return h.c.changeBucket(bucketName, func(b *bucket) error {
			_, err := b.manifest.AddCollection(scope, path[2], maxTTL)
			return err
		})
	case verb == "DROP" && len(path) == 2:
		return h.c.DropScope(bucketName, scope)
	case verb == "DROP":
		return h.c.DropCollection(bucketName, scope, path[2])
	}
	return h.c.changeBucket(bucketName, func(b *bucket) error {
		if s := b.manifest.Scope(scope); s != nil {
			if col := s.Collection(path[2]); col != nil {
				b.store.DropCollection(col.ID)
			}
		}
		return nil
	})
}

func (h host) Tell(message string, args ...any) { h.c.tell(message, args...) }

func (h host) ViewsOf(name string, node int) (here bool, elsewhere string) {
	h.bucket(name, func(b *bucket) {
		for _, row := range b.rows {
			active := row[0]
			switch {
			case active == node:
				here = true
			case active >= 0 && elsewhere == "":
				elsewhere = h.c.nodes[active].ServiceAddr(ViewsService)
			}
		}
	})
	return here, elsewhere
}

// Script answers matching requests until Remove: the first answer for the first request, and so on; the last one is for
// all that follow. Of several scripts that match, the newest that is not used up answers.
func (c *Cluster) Script(m ServiceMatch, answers ...Answer) *Script {
	return c.services.Script(m, answers...)
}

// ScriptQuery is Script for executions of query statements that contain a text.
func (c *Cluster) ScriptQuery(statement string, answers ...Answer) *Script {
	return c.Script(ServiceMatch{Service: QueryService, Statement: statement}, answers...)
}

// ScriptAnalytics is Script for analytics statements that contain a text.
func (c *Cluster) ScriptAnalytics(statement string, answers ...Answer) *Script {
	return c.Script(ServiceMatch{Service: AnalyticsService, Statement: statement}, answers...)
}

// ScriptSearch is Script for queries of a search index, see ServiceMatch.Index.
func (c *Cluster) ScriptSearch(index string, answers ...Answer) *Script {
	return c.Script(ServiceMatch{Service: SearchService, Index: index, Path: "/query"}, answers...)
}

// ScriptView is Script for a view, "bucket/design document/view" or the last parts of that.
func (c *Cluster) ScriptView(view string, answers ...Answer) *Script {
	return c.Script(ServiceMatch{Service: ViewsService, Index: view, Path: "/_view/"}, answers...)
}

// ServiceLog returns the newest requests to services other than KV, in order of arrival: those to ss, or to every
// service when none is named. 4096 are kept.
func (c *Cluster) ServiceLog(ss ...Service) []ServiceRequest { return c.services.Log(ss...) }

// ClearServiceLog forgets the requests to services so far.
func (c *Cluster) ClearServiceLog() { c.services.ClearLog() }

// Unsupported lists the statements and searches that came and that the mock did not answer as a server does, because no
// script answered them: each once, in the order of their first request.
func (c *Cluster) Unsupported() []Unsupported { return c.services.Unsupported() }

// ClearUnsupported empties the list of Unsupported.
func (c *Cluster) ClearUnsupported() { c.services.ClearUnsupported() }

// Execute runs a statement of the query service as an administrator, without scripts and logs: the definition of an
// index, for example. It returns the statement's first error.
func (c *Cluster) Execute(statement string) error { return c.services.Run(statement) }

// PutSearchIndex stores the definition of a search index, a JSON object, under its name; "bucket.scope.name" is one of
// a scope.
func (c *Cluster) PutSearchIndex(name, definition string) error {
	var def map[string]json.RawMessage
	if err := json.Unmarshal([]byte(definition), &def); err != nil {
		return fmt.Errorf("mock: search index %s: %w", name, err)
	}
	c.services.PutSearchIndex(name, def)
	return nil
}

// ForgetPrepared removes every prepared statement, as a restart of the query service does: a request that names one
// without its plan gets the error 4040. It returns how many there were.
func (c *Cluster) ForgetPrepared() int { return c.services.ForgetPrepared() }

// FailPrepared makes every statement that is prepared now fail with an error code, with or without a plan, until it is
// prepared again. It returns how many there are.
func (c *Cluster) FailPrepared(code int) int { return c.services.FailPrepared(code) }

// Prepared returns the names of the statements that are prepared and can be used, by statement.
func (c *Cluster) Prepared() map[string]string { return c.services.Prepared() }

// Views gives the cluster an engine for views. Without one design documents can be stored, and queries of views fail.
// An engine that has the method CheckHandler, as that of mock/viewjs, compiles the code of functions of the eventing
// service too, which are stored whatever their code without one.
func Views(e ViewEngine) Option { return func(s *settings) { s.views = e } }

// PutDesignDocument stores a design document, {"views":{"name":{"map":"function ...","reduce":"_count"}}}, under a name
// without "_design/". It fails for a bucket that does not exist, and for a document or function with a wrong syntax.
func (c *Cluster) PutDesignDocument(bucketName, name, doc string) error {
	return c.services.PutDesign(bucketName, name, doc)
}

// DropDesignDocument removes a design document, and reports whether there was one.
func (c *Cluster) DropDesignDocument(bucketName, name string) bool {
	return c.services.DropDesign(bucketName, name)
}
