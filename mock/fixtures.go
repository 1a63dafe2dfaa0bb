package mock

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// Fixtures are the data that a test begins with. As JSON, in a file or over the control API, they have the names that
// the tags say.
type Fixtures struct {
	Buckets       map[string]BucketFixture   `json:"buckets,omitempty" doc:"by name; a bucket that does not exist is made"`
	Users         []UserFixture              `json:"users,omitempty"`
	Statements    []string                   `json:"statements,omitempty" doc:"of the query service, executed in order after the documents: definitions of indexes, for example"`
	SearchIndexes map[string]json.RawMessage `json:"search_indexes,omitempty" doc:"definitions by name, or by bucket.scope.name"`
}

// BucketFixture is what one bucket begins with.
type BucketFixture struct {
	Type        string                       `json:"type,omitempty" doc:"of a bucket that is made: couchbase, ephemeral or memcached"`
	Replicas    *int                         `json:"replicas,omitempty" doc:"of a bucket that is made"`
	Documents   map[string]any               `json:"documents,omitempty" doc:"of the default collection, by key; see the guide for values that are not JSON"`
	Collections map[string]CollectionFixture `json:"collections,omitempty" doc:"by scope.collection; those that do not exist are made"`
	Designs     map[string]json.RawMessage   `json:"designs,omitempty" doc:"design documents by name"`
}

// CollectionFixture is what one collection begins with.
type CollectionFixture struct {
	MaxTTL    int32          `json:"max_ttl,omitempty" doc:"of a collection that is made, in seconds"`
	Documents map[string]any `json:"documents,omitempty"`
}

// UserFixture is an account.
type UserFixture struct {
	Name     string   `json:"name"`
	Password string   `json:"password"`
	Buckets  []string `json:"buckets,omitempty" doc:"that it may use; without any it is an administrator"`
}

// The flags that SDKs give to documents by the kind of their value, and read them by.
const (
	FlagsJSON   uint32 = 0x02000006
	FlagsBinary uint32 = 0x03000006
	FlagsText   uint32 = 0x04000006
)

// Doc is the value of a document in Documents or Fixtures that needs more than a JSON value: bytes, flags, an expiry.
// In a JSON file it is an object with one of the members "$json", "$text" and "$base64", and perhaps "$flags" and
// "$expiry".
type Doc struct {
	Value  []byte
	Flags  uint32 // as they are; FlagsJSON and its like are what SDKs read
	Expiry uint32 // as in the protocol: seconds from now up to 30 days, unix seconds above; 0 for none
}

// Documents puts documents into a collection, "bucket" or "bucket.scope.collection", when the cluster starts. The
// bucket exists by another option, or is the usual one; the collection is made. A value is a Doc, or what json.Marshal
// makes of it. Neither ApplyLog nor FrameLog has these documents.
func Documents(keyspace string, docs map[string]any) Option {
	bucket, collection, _ := strings.Cut(keyspace, ".")
	b := BucketFixture{Documents: docs}
	if collection != "" {
		b = BucketFixture{Collections: map[string]CollectionFixture{collection: {Documents: docs}}}
	}
	return WithFixtures(Fixtures{Buckets: map[string]BucketFixture{bucket: b}})
}

// WithFixtures loads fixtures when the cluster starts.
func WithFixtures(f Fixtures) Option {
	return func(s *settings) { s.fixtures = append(s.fixtures, f) }
}

// ParseFixtures reads fixtures from JSON. Members that do not exist are refused.
func ParseFixtures(text []byte) (Fixtures, error) {
	var f Fixtures
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := dec.Decode(&f); err != nil {
		return f, fmt.Errorf("mock: fixtures: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) { // More takes a bracket for the end
		return f, fmt.Errorf("mock: fixtures: there is more behind the JSON object")
	}
	return f, nil
}

// maxFixture is the size of the largest file of fixtures.
const maxFixture = 256 << 20

// ReadFixtures reads fixtures from files. name is a file in the form of ParseFixtures, or a folder: there each *.json
// is such a file, and each file BUCKET/SCOPE/COLLECTION/KEY is a document, of JSON when its name ends in .json, which
// is not part of the key.
func ReadFixtures(fsys fs.FS, name string) ([]Fixtures, error) {
	var out []Fixtures
	err := fs.WalkDir(fsys, name, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Size() > maxFixture {
			return fmt.Errorf("%s has %d bytes, want at most %d", file, info.Size(), maxFixture)
		}
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		f, err := fixtureOf(strings.TrimPrefix(strings.TrimPrefix(file, name), "/"), text)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("mock: fixtures: %w", err)
	}
	return out, nil
}

// fixtureOf is what one file has; its place is relative to the folder, or empty for the only file.
func fixtureOf(place string, text []byte) (Fixtures, error) {
	parts := strings.Split(place, "/")
	switch {
	case len(parts) == 1:
		return ParseFixtures(text)
	case len(parts) != 4:
		return Fixtures{}, errors.New("want BUCKET/SCOPE/COLLECTION/KEY")
	}
	key, isJSON := strings.CutSuffix(parts[3], ".json")
	doc := Doc{Value: text, Flags: FlagsBinary}
	if isJSON {
		if !json.Valid(text) {
			return Fixtures{}, errors.New("the document is not JSON")
		}
		doc.Flags = FlagsJSON
	}
	return Fixtures{Buckets: map[string]BucketFixture{parts[0]: {
		Collections: map[string]CollectionFixture{path.Join(parts[1] + "." + parts[2]): {
			Documents: map[string]any{key: doc},
		}},
	}}}, nil
}

// Load puts fixtures into the cluster: what they name is made if it does not exist, and documents replace those that
// exist. It stops at the first error, with what came before in place.
func (c *Cluster) Load(f Fixtures) error {
	for _, u := range f.Users {
		if u.Name == "" {
			return errors.New("mock: fixtures: a user without a name")
		}
		c.AddUser(u.Name, u.Password, u.Buckets...)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Buckets)) {
		if err := c.loadBucket(name, f.Buckets[name]); err != nil {
			return err
		}
	}
	for _, s := range f.Statements {
		if err := c.Execute(s); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.SearchIndexes)) {
		if err := c.PutSearchIndex(name, string(f.SearchIndexes[name])); err != nil {
			return err
		}
	}
	return nil
}

// KindOfBucket is the option for a type of bucket by its name: couchbase, ephemeral or memcached.
func KindOfBucket(name string) (BucketOption, error) {
	switch name {
	case "", "couchbase":
		return func(*bucketSettings) {}, nil
	case "ephemeral":
		return Ephemeral(), nil
	case "memcached":
		return Memcached(), nil
	}
	return nil, fmt.Errorf("mock: bucket type %q: there are couchbase, ephemeral and memcached", name)
}

func (c *Cluster) loadBucket(name string, f BucketFixture) error {
	kind, err := KindOfBucket(f.Type)
	if err != nil {
		return err
	}
	if c.withBucket(name, func(*bucket) {}) != nil {
		opts := []BucketOption{kind}
		if f.Replicas != nil {
			opts = append(opts, WithReplicas(*f.Replicas))
		}
		if err := c.CreateBucket(name, 0, opts...); err != nil {
			return err
		}
	}
	if err := c.loadDocuments(name, DefaultCollection, f.Documents); err != nil {
		return err
	}
	for _, place := range slices.Sorted(maps.Keys(f.Collections)) {
		from := f.Collections[place]
		if err := c.ensureCollection(name, place, from.MaxTTL); err != nil {
			return err
		}
		if err := c.loadDocuments(name, place, from.Documents); err != nil {
			return err
		}
	}
	for _, d := range slices.Sorted(maps.Keys(f.Designs)) {
		if err := c.PutDesignDocument(name, d, string(f.Designs[d])); err != nil {
			return err
		}
	}
	return nil
}

// DefaultCollection is the collection that every bucket begins with.
const DefaultCollection = store.DefaultName + "." + store.DefaultName

func (c *Cluster) ensureCollection(bucketName, place string, maxTTL int32) error {
	scope, collection, ok := strings.Cut(place, ".")
	if !ok {
		return fmt.Errorf("mock: fixtures: collection %q of bucket %q, want scope.collection", place, bucketName)
	}
	if _, there := (host{c}).Collection(bucketName, scope, collection); there {
		return nil
	}
	return c.changeBucket(bucketName, func(b *bucket) error {
		if b.manifest.Scope(scope) == nil {
			if _, err := b.manifest.AddScope(scope); err != nil {
				return err
			}
		}
		_, err := b.manifest.AddCollection(scope, collection, maxTTL)
		return err
	})
}

func (c *Cluster) loadDocuments(bucketName, place string, docs map[string]any) error {
	scope, collection, _ := strings.Cut(place, ".")
	id, ok := (host{c}).Collection(bucketName, scope, collection)
	if !ok && len(docs) > 0 {
		return fmt.Errorf("mock: bucket %q has no collection %s", bucketName, place)
	}
	for _, key := range slices.Sorted(maps.Keys(docs)) {
		d, err := docOf(docs[key])
		switch {
		case err != nil:
			return fmt.Errorf("mock: document %q of %s in %q: %w", key, place, bucketName, err)
		case key == "" || len(key) > maxCollectionKey:
			return fmt.Errorf("mock: the key %q has %d bytes, want 1 to %d", key, len(key), maxCollectionKey)
		case len(d.Value) > store.MaxValue:
			return fmt.Errorf("mock: document %q has %d bytes, want at most %d", key, len(d.Value), store.MaxValue)
		}
		if st := c.put(bucketName, id, key, &d); st != memd.StatusSuccess {
			return fmt.Errorf("mock: document %q of %s in %q: %v", key, place, bucketName, st)
		}
	}
	return nil
}

// put stores a document where clients look for it: in a memcached bucket that may be any node.
func (c *Cluster) put(bucketName string, collection uint32, key string, d *Doc) memd.Status {
	op := store.Op{
		Opcode: memd.OpSet, Collection: collection, Key: []byte(key), Value: d.Value, Flags: d.Flags, Expiry: d.Expiry,
		Datatype: store.ValueType(d.Value), Unlogged: true,
	}
	nodes := -1                                    // of a bucket with vbuckets
	_ = c.withBucket(bucketName, func(b *bucket) { // a bucket that has gone fails below
		if b.memcached() {
			nodes = len(c.nodes)
		}
		for node := range nodes {
			op.VBucket, op.Node = uint16(node), node
			b.store.Apply(&op, c.now())
		}
	})
	if nodes >= 0 {
		return memd.StatusSuccess
	}
	return host{c}.Apply(bucketName, &op).Status
}

// docOf is the document that a value of Documents stands for.
func docOf(v any) (Doc, error) {
	switch v := v.(type) {
	case Doc:
		return v, nil
	case map[string]any:
		if d, special, err := specialDoc(v); special {
			return d, err
		}
	}
	text, err := json.Marshal(v)
	return Doc{Value: text, Flags: FlagsJSON}, err
}

// specialDoc reads an object whose members say more than a value. It reports false for any other object.
func specialDoc(m map[string]any) (d Doc, special bool, err error) {
	for name, v := range m {
		text, isText := v.(string)
		switch name {
		case "$json":
			d.Value, err = json.Marshal(v)
			d.Flags, special = FlagsJSON, true
		case "$text":
			d.Value, d.Flags, special = []byte(text), FlagsText, true
		case "$base64":
			d.Value, err = base64.StdEncoding.DecodeString(text)
			d.Flags, special = FlagsBinary, true
		case "$flags", "$expiry":
			continue
		default:
			return d, false, nil
		}
		if err == nil && name != "$json" && !isText {
			err = fmt.Errorf("%s is not a text", name)
		}
		if err != nil {
			return d, true, err
		}
	}
	for name, to := range map[string]*uint32{"$flags": &d.Flags, "$expiry": &d.Expiry} {
		if v, ok := m[name]; ok && special {
			raw, _ := json.Marshal(v) // it was JSON or a number before
			if json.Unmarshal(raw, to) != nil {
				return d, true, fmt.Errorf("%s is not a number of 32 bits", name)
			}
		}
	}
	return d, special, nil
}
