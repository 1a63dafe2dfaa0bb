package management

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// odd are values that no form of a client has.
var odd = []string{
	"", " ", "-1", "0", "1", "99999999999999999999", "1e9", "true", "kv", "kv,n1ql", "a[b]c", "[", "]", "[*]", "admin[",
	"data_reader[b:s:c:d]", "\x00", "\xff\xfe", "€", strings.Repeat("x", 300), "{}", "[]", `{"scopes":[{}]}`, "null",
	`["beer-sample",1,null]`, "../..", "%", "ns_1@10.0.0.1,x", "b", "default", "_default", "self", "local", "external",
}

var fieldNames = []string{
	"name", "ramQuotaMB", "ramQuota", "bucketType", "replicaNumber", "replicaIndex", "evictionPolicy", "flushEnabled",
	"maxTTL", "history", "storageBackend", "historyRetentionBytes", "numVBuckets", "durabilityMinLevel", "roles",
	"groups",
	"password", "description", "ldap_group_ref", "otpNode", "knownNodes", "ejectedNodes", "services", "hostname", "kv",
	"user", "username", "port", "memoryQuota", "clusterName", "queryTimeout", "enabled", "timeout", "value", "flags",
	"recoveryType", "databaseFragmentationThreshold[percentage]", "a[", "]", "",
}

// No request makes a handler panic or answer that the server failed: every row of the table with odd values in its
// path, its query and its body.
func TestOddRequestsAreAnswered(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	s := NewState(&fakeHost{})
	admin := &Caller{Name: "a", Domain: builtIn, Rights: Rights{Admin: true}}
	for range 20 {
		for _, row := range table() {
			if strings.Contains(row.path, "treaming") || strings.Contains(row.path, "/bs/") {
				continue // they end with their client
			}
			path := row.path
			for strings.Contains(path, "{") {
				before, tail, _ := strings.Cut(path, "{")
				_, after, _ := strings.Cut(tail, "}")
				path = before + url.PathEscape(pick(odd)) + after
			}
			form := url.Values{}
			for range random.IntN(5) {
				form.Add(pick(fieldNames), pick(odd))
			}
			body, kind := form.Encode(), "application/x-www-form-urlencoded"
			if random.IntN(4) == 0 {
				body, kind = pick(odd), "application/json"
			}
			query := url.Values{pick([]string{"uuid", "pageSize", "limit", "startkey", "skip", "rev"}): {pick(odd)}}
			r := httptest.NewRequestWithContext(t.Context(), row.method, "http://h/", strings.NewReader(body))
			u, err := url.Parse("http://h" + path + "?" + query.Encode())
			require.NoError(t, err)
			r.URL = u
			r.Header.Set("Content-Type", kind)
			w := httptest.NewRecorder()
			what := fmt.Sprintf("%s %s: %q", row.method, u, body)
			require.NotPanics(t, func() { s.Serve(w, r, 0, admin) }, what)
			if w.Code >= 500 {
				require.Contains(t, []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout}, w.Code, what)
			}
		}
	}
}

// fakeHost is a cluster with one bucket that takes everything.
type fakeHost struct{}

func (*fakeHost) Version(int) Version { return Version{Text: "8.0.0", Major: 8} }

func (*fakeHost) Cluster(int) *Cluster {
	set := DefaultSettings("b", "", "", Version{Text: "8.0.0", Major: 8})
	return &Cluster{
		Name: "c", UUID: "u", Version: Version{Text: "8.0.0", Major: 8}, Admin: "a",
		Nodes: []Node{
			{
				Name: "ns_1@10.0.0.1", Hostname: "10.0.0.1:8091", Self: true, Up: true, Membership: Active,
				Services: []string{"kv"}, Ports: map[string]int{"kv": 11210, "mgmt": 8091}, Group: "Group 1",
			},
			{Index: 1, Name: "ns_1@10.0.0.2", Membership: InactiveFailed, Group: "Group 1"},
		},
		Buckets: []Bucket{{BucketSettings: set, UUID: "u", Nodes: []int{0}, VBuckets: 4}},
	}
}

func (*fakeHost) SettingsChanged(string)        {}
func (*fakeHost) Terse(string, int) []byte      { return []byte("{}") }
func (*fakeHost) BucketPart(string, int) []byte { return []byte("{}") }
func (*fakeHost) Apart() time.Duration          { return 0 }
func (*fakeHost) Usage(string) (int, int)       { return 1, 1 }
func (*fakeHost) Manifest(string) ([]byte, uint64) {
	return []byte(`{"scopes":[{"name":"_default"}]}`), 1
}
func (*fakeHost) Designs(string) []Design                 { return nil }
func (*fakeHost) SetClusterName(string)                   {}
func (*fakeHost) CreateBucket(*BucketSettings, int) error { return nil }
func (*fakeHost) FillSample(string) error                 { return nil }
func (*fakeHost) UpdateBucket(*BucketSettings) error      { return nil }
func (*fakeHost) DropBucket(string) error                 { return nil }
func (*fakeHost) FlushBucket(string) error                { return nil }
func (*fakeHost) Accounts() []Account                     { return []Account{{Name: "a", Rights: Rights{Admin: true}}} }
func (*fakeHost) SetAccount(*Account, *string)            {}
func (*fakeHost) DropAccount(string)                      {}
func (*fakeHost) AddNode([]string, string) (int, error)   { return 2, nil }
func (*fakeHost) Failover([]int, bool) error              { return nil }
func (*fakeHost) Rebalance([]int) error                   { return nil }
func (*fakeHost) Eject(int) error                         { return nil }
func (*fakeHost) Recover(int, string) error               { return nil }
func (*fakeHost) SetGroup(int, string)                    {}
func (*fakeHost) SetExternal(int, *External)              {}
func (*fakeHost) Documents(Place) []string                { return []string{"k"} }
func (*fakeHost) Put(Place, string, []byte, uint32) error { return nil }
func (*fakeHost) Delete(Place, string) error              { return nil }

func (*fakeHost) ChangeManifest(string, ManifestChange) (uint64, error) {
	return 0, &Refusal{http.StatusNotFound, "no"}
}

func (*fakeHost) Get(Place, string) (Document, bool) {
	return Document{ID: "k", Value: []byte("1")}, true
}
