package control

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/couchcore/couchcore/mock"
)

// DocumentQuery filters documents.
type DocumentQuery struct {
	Key        string `json:"key"`
	Collection string `json:"collection" doc:"scope.collection"`
}

// Document is a document as its active node has it.
type Document struct {
	Node        int             `json:"node"`
	VBucket     uint16          `json:"vbucket"`
	Collection  string          `json:"collection" doc:"scope.collection"`
	Key         string          `json:"key,omitempty"`
	KeyBase64   string          `json:"key_base64,omitempty"`
	JSON        json.RawMessage `json:"json,omitempty" doc:"the value of a document that is JSON"`
	Value       string          `json:"value,omitempty" doc:"any other value, as text"`
	ValueBase64 string          `json:"value_base64,omitempty"`
	Flags       uint32          `json:"flags"`
	Expiry      uint32          `json:"expiry,omitempty" doc:"unix seconds"`
	CAS         string          `json:"cas"`
	Seqno       uint64          `json:"seqno"`
	Locked      bool            `json:"locked,omitempty"`
}

// DocumentList are documents in the order of their vbuckets, collections and keys.
type DocumentList struct {
	Items []Document `json:"items"`
}

func documents(c *call, in *DocumentQuery) (DocumentList, error) {
	name, err := c.bucket()
	if err != nil {
		return DocumentList{}, err
	}
	out := DocumentList{Items: []Document{}}
	for _, d := range c.x.c.Documents(name) {
		item := c.document(name, &d)
		if in.Key != "" && d.Key != in.Key || in.Collection != "" && item.Collection != in.Collection {
			continue
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

func (c *call) document(bucket string, d *mock.Document) Document {
	out := Document{
		Node: d.Node, VBucket: d.VBucket, Collection: c.x.c.CollectionName(bucket, d.Collection), Flags: d.Flags,
		Expiry: d.Expiry, CAS: casText(d.CAS), Seqno: d.Seqno, Locked: d.Locked,
	}
	out.Key, out.KeyBase64 = textOf([]byte(d.Key))
	if json.Valid(d.Value) {
		out.JSON = d.Value
		return out
	}
	out.Value, out.ValueBase64 = textOf(d.Value)
	return out
}

// PutDocuments are documents to store.
type PutDocuments struct {
	Collection string         `json:"collection,omitempty" doc:"scope.collection, which is made if need be; absent for the default one"`
	Documents  map[string]any `json:"documents" doc:"by key, as in fixtures"`
}

func putDocuments(c *call, in *PutDocuments) (nothing, error) {
	return c.onBucket(func(name string) error {
		b := mock.BucketFixture{Documents: in.Documents}
		if in.Collection != "" {
			b = mock.BucketFixture{Collections: map[string]mock.CollectionFixture{
				in.Collection: {Documents: in.Documents},
			}}
		}
		return c.x.c.Load(mock.Fixtures{Buckets: map[string]mock.BucketFixture{name: b}})
	})
}

// Copy is what one node has of a document of the default collection.
type Copy struct {
	Node   int       `json:"node"`
	Place  int       `json:"place" doc:"0 for the active node, replicas count from 1"`
	Memory *Document `json:"memory,omitempty" doc:"absent when it has none there"`
	Disk   *Document `json:"disk,omitempty"`
}

// CopyList are the copies in the order of their places.
type CopyList struct {
	Items []Copy `json:"items"`
}

func copies(c *call, in *KeyQuery) (CopyList, error) {
	name, err := c.bucket()
	if err != nil {
		return CopyList{}, err
	}
	list, err := c.x.c.Copies(name, in.Key)
	if err != nil {
		return CopyList{}, err
	}
	out := CopyList{Items: []Copy{}}
	for _, from := range list {
		item := Copy{Node: from.Node, Place: from.Place}
		if from.Memory != nil {
			d := c.document(name, from.Memory)
			item.Memory = &d
		}
		if from.Disk != nil {
			d := c.document(name, from.Disk)
			item.Disk = &d
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

// copyChanges are the changes of copies by their names.
var copyChanges = map[string]mock.CopyChange{
	"cache": mock.CacheCopy, "persist": mock.PersistCopy, "uncache": mock.UncacheCopy, "unpersist": mock.UnpersistCopy,
}

// ChangeCopies changes what nodes have of a document of the default collection.
type ChangeCopies struct {
	Key   string   `json:"key"`
	Nodes []int    `json:"nodes" doc:"numbers of nodes"`
	Do    []string `json:"do" doc:"cache, persist, uncache or unpersist, several together"`
	Value *string  `json:"value,omitempty" doc:"that the document gets first"`
	CAS   string   `json:"cas,omitempty" doc:"with value"`
}

func changeCopies(c *call, in *ChangeCopies) (nothing, error) {
	if err := c.nodes("nodes", in.Nodes); err != nil {
		return nothing{}, err
	}
	var do mock.CopyChange
	for _, name := range in.Do {
		change, ok := copyChanges[name]
		if !ok {
			return nothing{}, invalid("do", "%q is not cache, persist, uncache or unpersist", name)
		}
		do |= change
	}
	var with *mock.Document
	if in.Value != nil {
		cas, err := number("cas", in.CAS)
		if err != nil {
			return nothing{}, err
		}
		with = &mock.Document{Value: []byte(*in.Value), CAS: cas}
	}
	return c.onBucket(func(name string) error { return c.x.c.ChangeCopies(name, in.Key, in.Nodes, do, with) })
}

func loadFixtures(c *call, in *mock.Fixtures) (nothing, error) { return nothing{}, c.x.c.Load(*in) }

// Files names files.
type Files struct {
	Path string `json:"path" doc:"of a file or a folder, relative to the place that the mock was started with; a dot for all of it"`
}

func loadFiles(c *call, in *Files) (nothing, error) {
	if c.x.opts.Fixtures == nil {
		return nothing{}, notFound("path", "the mock was started without files of fixtures")
	}
	if !fs.ValidPath(in.Path) {
		return nothing{}, invalid("path", "%q is not a path below the folder", in.Path)
	}
	list, err := mock.ReadFixtures(c.x.opts.Fixtures, in.Path)
	if err != nil {
		return nothing{}, invalid("path", "%s", strings.TrimPrefix(err.Error(), "mock: fixtures: "))
	}
	for _, f := range list {
		if err := c.x.c.Load(f); err != nil {
			return nothing{}, err
		}
	}
	return nothing{}, nil
}

// Snapshot is the id of a snapshot.
type Snapshot struct {
	ID string `json:"id"`
}

func takeSnapshot(c *call, _ *nothing) (Snapshot, error) {
	s := c.x.c.Snapshot()
	x := c.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.snapshots) >= MaxSnapshots {
		return Snapshot{}, tooMany("snapshots", MaxSnapshots)
	}
	id := x.id("p")
	x.snapshots[id] = s
	return Snapshot{id}, nil
}

func (c *call) snapshot() (*mock.Snapshot, error) {
	id := c.r.PathValue("id")
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if s := c.x.snapshots[id]; s != nil {
		return s, nil
	}
	return nil, notFound("id", "there is no snapshot %q", id)
}

func restore(c *call, _ *nothing) (nothing, error) {
	s, err := c.snapshot()
	if err != nil {
		return nothing{}, err
	}
	return nothing{}, c.x.c.Restore(s)
}

func dropSnapshot(c *call, _ *nothing) (nothing, error) {
	if _, err := c.snapshot(); err != nil {
		return nothing{}, err
	}
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	delete(c.x.snapshots, c.r.PathValue("id"))
	return nothing{}, nil
}

// Users are the names of accounts.
type Users struct {
	Names []string `json:"names"`
}

func users(c *call, _ *nothing) (Users, error) { return Users{c.x.c.Users()}, nil }

// User is an account.
type User struct {
	Password string   `json:"password"`
	Buckets  []string `json:"buckets,omitempty" doc:"that it may use; without any it is an administrator"`
}

func putUser(c *call, in *User) (nothing, error) {
	c.x.c.AddUser(c.r.PathValue("user"), in.Password, in.Buckets...)
	return nothing{}, nil
}

func dropUser(c *call, _ *nothing) (nothing, error) {
	if name := c.r.PathValue("user"); !c.x.c.RemoveUser(name) {
		return nothing{}, notFound("user", "there is no user %q", name)
	}
	return nothing{}, nil
}

// Prepared says how many prepared statements there are.
type Prepared struct {
	Statements int `json:"statements"`
}

func forgetPrepared(c *call, _ *nothing) (Prepared, error) {
	return Prepared{c.x.c.ForgetPrepared()}, nil
}

// FailPrepared says with which error.
type FailPrepared struct {
	Code int `json:"code" doc:"4040, 4050, 4060, 4070, 4080, 4090, 5000 and so on"`
}

func failPrepared(c *call, in *FailPrepared) (Prepared, error) {
	if in.Code <= 0 {
		return Prepared{}, invalid("code", "%d is not an error code", in.Code)
	}
	return Prepared{c.x.c.FailPrepared(in.Code)}, nil
}

// Statements are executed in order.
type Statements struct {
	Statements []string `json:"statements"`
}

func execute(c *call, in *Statements) (nothing, error) {
	for i, statement := range in.Statements {
		if err := c.x.c.Execute(statement); err != nil {
			return nothing{}, invalid(fmt.Sprintf("statements[%d]", i), "%s", strings.TrimPrefix(err.Error(), "mock: "))
		}
	}
	return nothing{}, nil
}

func putSearchIndex(c *call, in *json.RawMessage) (nothing, error) {
	return nothing{}, c.x.c.PutSearchIndex(c.r.PathValue("index"), string(*in))
}

// Capabilities are those of a service.
type Capabilities struct {
	Names []string `json:"names"`
}

func setCapabilities(c *call, in *Capabilities) (nothing, error) {
	name := map[string]string{"query": "n1ql", "n1ql": "n1ql", "search": "search"}[c.r.PathValue("service")]
	if name == "" {
		return nothing{}, notFound("service", "%q is not query or search", c.r.PathValue("service"))
	}
	return nothing{}, c.x.c.SetCapabilities(name, in.Names...)
}

func getErrorMap(c *call, _ *nothing) (document, error) { return c.x.c.ErrorMap(), nil }

func setErrorMap(c *call, in *json.RawMessage) (nothing, error) {
	if len(*in) == 0 {
		return nothing{}, invalid("body", "the error map is missing")
	}
	c.x.c.SetErrorMap(*in)
	return nothing{}, nil
}

// ErrorCode is one code of the error map.
type ErrorCode struct {
	Code       string          `json:"code" doc:"a number such as 0x7ff0, or the name of a status"`
	Name       string          `json:"name"`
	Attributes []string        `json:"attributes,omitempty" doc:"retry-now, retry-later, auto-retry and so on"`
	Retry      json.RawMessage `json:"retry,omitempty" doc:"strategy, interval and so on"`
}

func addErrorCode(c *call, in *ErrorCode) (nothing, error) {
	code, err := status("code", in.Code)
	if err != nil {
		return nothing{}, err
	}
	attributes := slices.Clone(in.Attributes)
	if attributes == nil {
		attributes = []string{}
	}
	return nothing{}, c.x.c.AddErrorCode(code, in.Name, attributes, in.Retry)
}
