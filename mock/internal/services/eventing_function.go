package services

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// functionScope is the scope to which a function belongs.
type functionScope struct {
	Bucket string `json:"bucket"`
	Scope  string `json:"scope"`
}

// anyScope is that of functions of the cluster.
var anyScope = functionScope{"*", "*"}

func (s functionScope) String() string { return s.Bucket + "/" + s.Scope }

// functionPlace names a function.
type functionPlace struct {
	scope functionScope
	name  string
}

// String is the form that servers list: the name, with its scope before it if it has one.
func (p functionPlace) String() string {
	if p.scope == anyScope {
		return p.name
	}
	return p.scope.String() + "/" + p.name
}

// function is a function with its settings, in the form of the service's answers.
type function struct {
	Code     string         `json:"appcode"`
	Bindings bindings       `json:"depcfg"`
	Version  string         `json:"version"`
	Enforce  bool           `json:"enforce_schema"`
	ID       uint32         `json:"handleruuid"`
	Instance string         `json:"function_instance_id"`
	Name     string         `json:"appname"`
	Settings map[string]any `json:"settings"`
	Scope    functionScope  `json:"function_scope"`

	moving bool // to its target, since
	since  time.Time
}

// bindings are the keyspaces, addresses and constants of a function: depcfg.
type bindings struct {
	Buckets            []bucketBinding   `json:"buckets,omitempty"`
	URLs               []urlBinding      `json:"curl,omitempty"`
	Constants          []constantBinding `json:"constants,omitempty"`
	SourceBucket       string            `json:"source_bucket"`
	SourceScope        string            `json:"source_scope"`
	SourceCollection   string            `json:"source_collection"`
	MetadataBucket     string            `json:"metadata_bucket"`
	MetadataScope      string            `json:"metadata_scope"`
	MetadataCollection string            `json:"metadata_collection"`
}

type bucketBinding struct {
	Alias      string `json:"alias"`
	Bucket     string `json:"bucket_name"`
	Scope      string `json:"scope_name"`
	Collection string `json:"collection_name"`
	Access     string `json:"access"`
}

type urlBinding struct {
	Hostname   string `json:"hostname"`
	Alias      string `json:"value"`
	Auth       string `json:"auth_type"`
	Username   string `json:"username"`
	Password   string `json:"password"`
	BearerKey  string `json:"bearer_key"`
	Cookies    bool   `json:"allow_cookies"`
	ChecksCert bool   `json:"validate_ssl_certificate"`
}

type constantBinding struct {
	Alias   string `json:"value"`
	Literal string `json:"literal"`
}

// keyspace is bucket, scope and collection.
type keyspace [3]string

func (k keyspace) String() string { return strings.Join(k[:], ".") }

func (b *bindings) source() keyspace {
	return keyspace{b.SourceBucket, b.SourceScope, b.SourceCollection}
}

func (b *bindings) metadata() keyspace {
	return keyspace{b.MetadataBucket, b.MetadataScope, b.MetadataCollection}
}

// masked stands in answers in place of passwords; in a request it leaves the password as it is.
const masked = "*****"

// complete fills in what may be left out.
func (b *bindings) complete() {
	const unnamed = "_default"
	for _, s := range []*string{&b.SourceScope, &b.SourceCollection, &b.MetadataScope, &b.MetadataCollection} {
		*s = cmp.Or(*s, unnamed)
	}
	for i := range b.Buckets {
		k := &b.Buckets[i]
		k.Scope, k.Collection = cmp.Or(k.Scope, unnamed), cmp.Or(k.Collection, unnamed)
		if k.Access == "" {
			k.Access = "rw"
			if k.Bucket == b.SourceBucket {
				k.Access = "r"
			}
		}
	}
}

func unmask(text, before string) string {
	if text == masked {
		return before
	}
	return text
}

// keepSecrets takes over the passwords of the bindings before, where they are masked.
func (b *bindings) keepSecrets(before *bindings) {
	for i := range b.URLs {
		u := &b.URLs[i]
		for _, old := range before.URLs {
			if old.Alias != u.Alias {
				continue
			}
			u.Password, u.BearerKey = unmask(u.Password, old.Password), unmask(u.BearerKey, old.BearerKey)
		}
	}
}

// shown are the bindings without secrets.
func (b bindings) shown() bindings {
	b.URLs = slices.Clone(b.URLs)
	for i := range b.URLs {
		b.URLs[i].Password, b.URLs[i].BearerKey = masked, masked
	}
	return b
}

func (f *function) at() functionPlace { return functionPlace{f.Scope, f.Name} }

func (f *function) clone() *function {
	out := *f
	out.Settings = maps.Clone(f.Settings)
	return &out
}

func (f *function) shown() *function {
	out := f.clone()
	out.Bindings = f.Bindings.shown()
	return out
}

// size is what the limit on a function's size counts.
func (f *function) size() int { return len(toJSON(f)) }

// readFunctions reads one function, or a list of some.
func readFunctions(body []byte) ([]*function, *eventingFailure) {
	var list []*function
	text := slices.Concat([]byte("["), bytes.Trim(body, "[]\n "), []byte("]"))
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, unmarshalFailed.because("the body is not a function: %v", err)
	}
	for _, f := range list {
		if f == nil {
			return nil, unmarshalFailed.because("the body has null in place of a function")
		}
		f.complete()
	}
	return list, nil
}

// complete fills in what may be left out.
func (f *function) complete() {
	if f.Settings == nil {
		f.Settings = map[string]any{}
	}
	if f.Scope == (functionScope{}) {
		f.Scope = anyScope
	}
	f.Version = cmp.Or(f.Version, "external")
	f.Bindings.complete()
	if v, ok := f.Settings["dcp_stream_boundary"]; !ok || v == "from_prior" {
		f.Settings["dcp_stream_boundary"] = "everything"
	}
	if _, ok := f.Settings["language_compatibility"]; !ok {
		f.Settings["language_compatibility"] = languages[0]
	}
}

func (f *function) flag(setting string) bool {
	set, _ := f.Settings[setting].(bool)
	return set
}
