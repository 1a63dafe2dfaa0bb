package control

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// FrameQuery filters the log of frames.
type FrameQuery struct {
	Key        string   `json:"key" doc:"of the document"`
	Bucket     string   `json:"bucket"`
	Collection string   `json:"collection" doc:"scope.collection"`
	Opcodes    []string `json:"opcodes" doc:"names or numbers, with commas between them"`
	Node       string   `json:"node" doc:"its number"`
	Documents  bool     `json:"documents" doc:"only requests with a document"`
	Newest     int      `json:"newest" doc:"at most so many, the newest"`
}

// Frame is one request as a node received it.
type Frame struct {
	Node        int    `json:"node"`
	Connection  uint64 `json:"connection"`
	Opcode      string `json:"opcode"`
	VBucket     uint16 `json:"vbucket"`
	Opaque      uint32 `json:"opaque"`
	At          string `json:"at" doc:"RFC 3339"`
	User        string `json:"user,omitempty"`
	Bucket      string `json:"bucket,omitempty"`
	Collection  string `json:"collection,omitempty" doc:"scope.collection"`
	Key         string `json:"key,omitempty" doc:"of the document"`
	KeyBase64   string `json:"key_base64,omitempty" doc:"instead of key, for one that is not text"`
	Value       string `json:"value,omitempty" doc:"its first 16 KiB"`
	ValueBase64 string `json:"value_base64,omitempty" doc:"instead of value, for one that is not text"`
	CAS         string `json:"cas,omitempty" doc:"a number of 64 bits"`
	Durability  string `json:"durability,omitempty" doc:"majority, majority_and_persist_to_active or persist_to_majority"`
}

// Frames is that log, oldest first.
type Frames struct {
	Items []Frame `json:"items"`
}

func frameLog(c *call, in *FrameQuery) (Frames, error) {
	list, err := in.of(c)
	if err != nil {
		return Frames{}, err
	}
	out := Frames{Items: []Frame{}}
	for i := range list {
		out.Items = append(out.Items, describeFrame(&list[i]))
	}
	return out, nil
}

// of are the frames that fit.
func (q *FrameQuery) of(c *call) ([]mock.Frame, error) {
	var ops []memd.Opcode
	for i, name := range q.Opcodes {
		op, err := opcode(fmt.Sprintf("opcodes[%d]", i), name)
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	if q.Newest < 0 {
		return nil, invalid("newest", "%d is negative", q.Newest)
	}
	list := slices.DeleteFunc(c.x.c.FrameLog(), func(f mock.Frame) bool {
		return q.Key != "" && f.Document != q.Key || q.Bucket != "" && f.Bucket != q.Bucket ||
			q.Collection != "" && f.Collection != q.Collection || len(ops) > 0 && !slices.Contains(ops, f.Opcode) ||
			q.Node != "" && fmt.Sprint(f.Node) != q.Node || q.Documents && f.Document == ""
	})
	if q.Newest > 0 && len(list) > q.Newest {
		list = list[len(list)-q.Newest:]
	}
	return list, nil
}

func describeFrame(f *mock.Frame) Frame {
	out := Frame{
		Node: f.Node, Connection: f.Conn, Opcode: f.Opcode.String(), VBucket: f.VBucket, Opaque: f.Opaque,
		At: stamp(f.At), User: f.User, Bucket: f.Bucket, Collection: f.Collection, CAS: casText(f.CAS),
	}
	out.Key, out.KeyBase64 = textOf([]byte(f.Document))
	out.Value, out.ValueBase64 = textOf(f.Value)
	if int(f.Durability) < len(durabilityNames) {
		out.Durability = durabilityNames[f.Durability]
	}
	return out
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// casText is a CAS as text, empty for none.
func casText(cas uint64) string {
	if cas == 0 {
		return ""
	}
	return fmt.Sprint(cas)
}

func clearFrames(c *call, _ *nothing) (nothing, error) {
	c.x.c.ClearFrameLog()
	return nothing{}, nil
}

// Count is how many requests came for one document.
type Count struct {
	Bucket     string `json:"bucket"`
	Collection string `json:"collection" doc:"scope.collection"`
	Key        string `json:"key,omitempty"`
	KeyBase64  string `json:"key_base64,omitempty"`
	Opcode     string `json:"opcode"`
	Requests   int    `json:"requests"`
}

// Counts are the counts of the frames that fit.
type Counts struct {
	Total int     `json:"total"`
	Items []Count `json:"items"`
}

func counts(c *call, in *FrameQuery) (Counts, error) {
	in.Documents = true
	list, err := in.of(c)
	if err != nil {
		return Counts{}, err
	}
	out := Counts{Items: []Count{}}
	for _, k := range mock.CountFrames(list) {
		item := Count{Bucket: k.Bucket, Collection: k.Collection, Opcode: k.Opcode.String(), Requests: k.Requests}
		item.Key, item.KeyBase64 = textOf([]byte(k.Document))
		out.Items = append(out.Items, item)
		out.Total += k.Requests
	}
	return out, nil
}

// ApplyQuery filters the log of mutations.
type ApplyQuery struct {
	Bucket     string   `json:"bucket" doc:"absent for default"`
	Key        string   `json:"key"`
	Collection string   `json:"collection" doc:"scope.collection"`
	Opcodes    []string `json:"opcodes" doc:"names or numbers, with commas between them"`
}

// Applied is one mutation as a node executed it.
type Applied struct {
	Node        int    `json:"node"`
	VBucket     uint16 `json:"vbucket"`
	Opcode      string `json:"opcode"`
	Collection  string `json:"collection,omitempty" doc:"scope.collection"`
	Key         string `json:"key,omitempty"`
	KeyBase64   string `json:"key_base64,omitempty"`
	Token       string `json:"token,omitempty" doc:"the first 64 bytes of the request's value"`
	TokenBase64 string `json:"token_base64,omitempty"`
	CASBefore   string `json:"cas_before,omitempty" doc:"absent when there was no document"`
	CASAfter    string `json:"cas_after"`
	At          string `json:"at" doc:"RFC 3339"`
}

// ApplyLog is that log, oldest first.
type ApplyLog struct {
	Items []Applied `json:"items"`
}

func applyLog(c *call, in *ApplyQuery) (ApplyLog, error) {
	name, err := c.x.known("bucket", orDefault(in.Bucket))
	if err != nil {
		return ApplyLog{}, err
	}
	var ops []memd.Opcode
	for i, text := range in.Opcodes {
		op, err := opcode(fmt.Sprintf("opcodes[%d]", i), text)
		if err != nil {
			return ApplyLog{}, err
		}
		ops = append(ops, op)
	}
	out := ApplyLog{Items: []Applied{}}
	for _, a := range c.x.c.ApplyLog(name) {
		collection := c.x.c.CollectionName(name, a.Collection)
		if in.Key != "" && a.Key != in.Key || in.Collection != "" && collection != in.Collection ||
			len(ops) > 0 && !slices.Contains(ops, a.Opcode) {
			continue
		}
		item := Applied{
			Node: a.Node, VBucket: a.VBucket, Opcode: a.Opcode.String(), Collection: collection,
			CASBefore: casText(a.CASBefore), CASAfter: casText(a.CASAfter), At: stamp(a.At),
		}
		item.Key, item.KeyBase64 = textOf([]byte(a.Key))
		item.Token, item.TokenBase64 = textOf([]byte(a.Token))
		out.Items = append(out.Items, item)
	}
	return out, nil
}

func orDefault(bucket string) string {
	if bucket == "" {
		return mock.DefaultBucket
	}
	return bucket
}

// BucketQuery names a bucket.
type BucketQuery struct {
	Bucket string `json:"bucket" doc:"absent for all"`
}

func clearApplied(c *call, in *BucketQuery) (nothing, error) {
	names := c.x.c.Buckets()
	if in.Bucket != "" {
		names = []string{in.Bucket}
	}
	for _, name := range names {
		if err := c.x.c.ClearApplyLog(name); err != nil {
			return nothing{}, notFound("bucket", "there is no bucket %q", name)
		}
	}
	return nothing{}, nil
}

// HTTPQuery filters the log of the other services.
type HTTPQuery struct {
	Service   string `json:"service" doc:"query, search, analytics, views, eventing or management"`
	Path      string `json:"path" doc:"a part of it"`
	Statement string `json:"statement" doc:"a part of it"`
	Node      string `json:"node" doc:"its number"`
	Newest    int    `json:"newest" doc:"at most so many, the newest"`
}

// HTTPRequest is one request to a service other than key-value.
type HTTPRequest struct {
	Node       int                 `json:"node"`
	Service    string              `json:"service"`
	Method     string              `json:"method"`
	Path       string              `json:"path"`
	Query      map[string][]string `json:"query,omitempty"`
	Header     map[string][]string `json:"header,omitempty" doc:"without credentials"`
	Body       string              `json:"body,omitempty" doc:"its first 64 KiB"`
	BodyBase64 string              `json:"body_base64,omitempty"`
	User       string              `json:"user,omitempty" doc:"who asks; absent when authentication failed"`
	TLS        bool                `json:"tls,omitempty"`
	Protocol   string              `json:"protocol"`
	Statement  string              `json:"statement,omitempty"`
	Prepared   string              `json:"prepared,omitempty" doc:"the name of a prepared statement"`
	Preparing  bool                `json:"preparing,omitempty"`
	Index      string              `json:"index,omitempty"`
	At         string              `json:"at" doc:"RFC 3339"`
}

// HTTPLog is that log, oldest first.
type HTTPLog struct {
	Items []HTTPRequest `json:"items"`
}

func httpLog(c *call, in *HTTPQuery) (HTTPLog, error) {
	only, err := service("service", in.Service)
	if err != nil {
		return HTTPLog{}, err
	}
	if in.Newest < 0 {
		return HTTPLog{}, invalid("newest", "%d is negative", in.Newest)
	}
	var services []mock.Service
	if in.Service != "" {
		services = append(services, only)
	}
	out := HTTPLog{Items: []HTTPRequest{}}
	for _, r := range c.x.c.ServiceLog(services...) {
		if !strings.Contains(r.Path, in.Path) || !strings.Contains(r.Statement, in.Statement) ||
			in.Node != "" && fmt.Sprint(r.Node) != in.Node {
			continue
		}
		out.Items = append(out.Items, describeRequest(&r))
	}
	if in.Newest > 0 && len(out.Items) > in.Newest {
		out.Items = out.Items[len(out.Items)-in.Newest:]
	}
	return out, nil
}

func describeRequest(r *mock.ServiceRequest) HTTPRequest {
	header := r.Header.Clone()
	for _, secret := range []string{"Authorization", "Cookie", "Cb-On-Behalf-Of"} {
		header.Del(secret)
	}
	out := HTTPRequest{
		Node: r.Node, Service: serviceName(r.Service), Method: r.Method, Path: r.Path, Query: r.Query, Header: header,
		User: r.User, TLS: r.TLS, Protocol: r.Proto, Statement: r.Statement, Prepared: r.Prepared,
		Preparing: r.Preparing, Index: r.Index, At: stamp(r.At),
	}
	out.Body, out.BodyBase64 = textOf(r.Body)
	return out
}

func clearHTTP(c *call, _ *nothing) (nothing, error) {
	c.x.c.ClearServiceLog()
	return nothing{}, nil
}
