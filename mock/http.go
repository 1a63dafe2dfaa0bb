package mock

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// routes are the paths of a node's management service: what clients need to bootstrap over HTTP, to see that the node
// is ready, and to manage buckets, scopes, collections and users. Every path wants authentication.
var routes = []struct {
	pattern string
	handle  func(*httpCall)
}{
	{"GET /whoami", (*httpCall).whoami},
	{"GET /pools", (*httpCall).pools},
	{"POST /pools/default", (*httpCall).rename},
	{"GET /pools/default/b/{bucket}", (*httpCall).terseBucket},
	{"GET /pools/default", (*httpCall).pool},
	{"GET /pools/default/buckets", (*httpCall).verboseBuckets},
	{"GET /pools/default/buckets/{bucket}", (*httpCall).verboseBucket},
	{"GET /pools/default/nodeServices", (*httpCall).nodeServices},
	{"GET /pools/default/terseClusterInfo", (*httpCall).clusterInfo},
	{"GET /pools/default/buckets/{bucket}/scopes", (*httpCall).getScopes},
	{"POST /pools/default/buckets/{bucket}/scopes", (*httpCall).createScope},
	{"DELETE /pools/default/buckets/{bucket}/scopes/{scope}", (*httpCall).dropScope},
	{"POST /pools/default/buckets/{bucket}/scopes/{scope}/{what}", (*httpCall).underScope},
	{"PATCH /pools/default/buckets/{bucket}/scopes/{scope}/collections/{collection}", (*httpCall).changeCollection},
	{"DELETE /pools/default/buckets/{bucket}/scopes/{scope}/collections/{collection}", (*httpCall).dropCollection},
	{"POST /pools/default/buckets", (*httpCall).createBucket},
	{"POST /pools/default/buckets/{bucket}", (*httpCall).updateBucket},
	{"DELETE /pools/default/buckets/{bucket}", (*httpCall).dropBucket},
	{"POST /pools/default/buckets/{bucket}/controller/doFlush", (*httpCall).flushBucket},
	{"GET /pools/default/buckets/{bucket}/ddocs", (*httpCall).designDocuments},
	{"GET /pools/default/bs/{bucket}", (*httpCall).terseStream},
	{"GET /pools/default/bucketsStreaming/{bucket}", (*httpCall).verboseStream},
	{"GET /pools/default/nodeServicesStreaming", (*httpCall).servicesStream},
	{"GET /poolsStreaming/default", (*httpCall).unsupported},
	{"GET /pools/default/tasks", (*httpCall).tasks},
	{"GET /pools/default/certificate", (*httpCall).certificate},
	{"GET /settings/rbac/users", (*httpCall).listUsers},
	{"GET /settings/rbac/users/{domain}", (*httpCall).listUsers},
	{"GET /settings/rbac/users/{domain}/{user}", (*httpCall).getUser},
	{"PUT /settings/rbac/users/{domain}/{user}", (*httpCall).putUser},
	{"DELETE /settings/rbac/users/{domain}/{user}", (*httpCall).dropUser},
	{"POST /controller/changePassword", (*httpCall).changePassword},
}

// managementMux knows the paths of the node's management service.
func (n *Node) managementMux() http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.HandleFunc(route.pattern, func(w http.ResponseWriter, r *http.Request) {
			u, _ := r.Context().Value(userKey{}).(*user)
			if x := n.authorise(w, r, u); x != nil {
				route.handle(x)
			}
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "Not found.",
			http.StatusNotFound)
	})
	return mux
}

var errNoCollection = errors.New("Collection with this name is not found")

// userKey is where a request's context holds its user.
type userKey struct{}

// httpCall is one authorised request.
type httpCall struct {
	n    *Node
	w    http.ResponseWriter
	r    *http.Request
	user *user
}

// authorise checks, when the path names a bucket, that it exists and that the user may see it. It answers and returns
// nil when that does not hold.
func (n *Node) authorise(w http.ResponseWriter, r *http.Request, u *user) *httpCall {
	bucket := r.PathValue("bucket")
	c := n.c
	c.mu.Lock()
	may := bucket == "" || u.may(bucket)
	exists := bucket == "" || c.buckets[bucket] != nil
	c.mu.Unlock()
	switch {
	case !may:
		http.Error(w, `{"message":"Forbidden. User needs the following permissions"}`, http.StatusForbidden)
	case !exists:
		http.Error(w, "Requested resource not found.", http.StatusNotFound)
	default:
		return &httpCall{n, w, r, u}
	}
	return nil
}

func (x *httpCall) send(body []byte) {
	x.w.Header().Set("Content-Type", "application/json")
	_, _ = x.w.Write(body) // the client may have left
}

func (x *httpCall) sendJSON(v any) {
	x.send(marshal(v))
}

// marshal is v as JSON; v is made of our own maps, strings and numbers, which cannot fail.
func marshal(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (x *httpCall) unsupported() { x.w.WriteHeader(http.StatusNotImplemented) }

func (x *httpCall) tasks() {
	x.sendJSON([]any{map[string]string{"type": "rebalance", "status": "notRunning"}})
}

// certificate is that of the cluster's authority.
func (x *httpCall) certificate() {
	if x.n.c.ca == nil {
		http.NotFound(x.w, x.r)
		return
	}
	x.w.Header().Set("Content-Type", "text/plain")
	_, _ = x.w.Write(x.n.c.CA()) // the client may have left
}

func (x *httpCall) whoami() {
	x.sendJSON(map[string]any{"id": x.user.name, "domain": "local", "roles": []any{}})
}

func (x *httpCall) pools() {
	x.sendJSON(map[string]any{
		"implementationVersion": serverVersion, "uuid": x.n.c.uuid, "isAdminCreds": x.user.admin, "isEnterprise": true,
		"pools": []any{map[string]string{"name": "default", "uri": "/pools/default?uuid=" + x.n.c.uuid}},
	})
}

// rename gives the cluster another name.
func (x *httpCall) rename() {
	name := x.r.FormValue("clusterName")
	_ = x.n.c.change(func() error { // fails only when the cluster ends, and then the answer is not read
		x.n.c.name = name
		return nil
	})
	x.send(nil)
}

// config reads what GET_CLUSTER_CONFIG would answer.
func (x *httpCall) config(bucket string) []byte {
	c := x.n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.config(c.buckets[bucket], x.n)
}

func (x *httpCall) terseBucket()  { x.send(x.config(x.r.PathValue("bucket"))) }
func (x *httpCall) nodeServices() { x.send(x.config("")) }

func (x *httpCall) clusterInfo() {
	x.sendJSON(map[string]any{
		"clusterUUID": x.n.c.uuid, "orchestrator": "ns_1@" + x.n.host, "isBalanced": true,
		"clusterCompatVersion": "7.6",
	})
}

func (x *httpCall) getScopes() {
	c := x.n.c
	c.mu.Lock()
	var out []byte
	if b := c.buckets[x.r.PathValue("bucket")]; b != nil {
		out = b.manifest.JSON()
	}
	c.mu.Unlock()
	x.send(out)
}

func (x *httpCall) createScope() {
	x.manage(func(b *bucket) error {
		_, err := b.manifest.AddScope(x.r.FormValue("name"))
		return err
	})
}

func (x *httpCall) createCollection() {
	ttl, _ := strconv.ParseInt(x.r.FormValue("maxTTL"), 10, 32) // absent means none
	x.manage(func(b *bucket) error {
		_, err := b.manifest.AddCollection(x.r.PathValue("scope"), x.r.FormValue("name"), int32(ttl))
		return err
	})
}

func (x *httpCall) dropScope() {
	x.finish(x.n.c.DropScope(x.r.PathValue("bucket"), x.r.PathValue("scope")))
}

func (x *httpCall) dropCollection() {
	x.finish(x.n.c.DropCollection(x.r.PathValue("bucket"), x.r.PathValue("scope"), x.r.PathValue("collection")))
}

// manage changes the bucket's manifest. The form is read before the change, which runs under the mutex.
func (x *httpCall) manage(f func(*bucket) error) {
	if err := x.r.ParseForm(); err != nil {
		http.Error(x.w, err.Error(), http.StatusBadRequest)
		return
	}
	x.finish(x.n.c.changeBucket(x.r.PathValue("bucket"), f))
}

// finish answers a change of the manifest with the manifest's new uid, or with the reason why there was none.
func (x *httpCall) finish(err error) {
	if err != nil {
		x.w.Header().Set("Content-Type", "application/json")
		x.w.WriteHeader(http.StatusBadRequest)
		b, _ := json.Marshal(map[string]any{"errors": map[string]string{"name": err.Error()}})
		_, _ = x.w.Write(b)
		return
	}
	c := x.n.c
	c.mu.Lock()
	var uid uint64
	if b := c.buckets[x.r.PathValue("bucket")]; b != nil {
		uid = b.manifest.UID
	}
	c.mu.Unlock()
	x.sendJSON(map[string]string{"uid": strconv.FormatUint(uid, 16)})
}
