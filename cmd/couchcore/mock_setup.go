package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// mockSetup is what --setup gives: the options of package mock that have no flag of their own.
type mockSetup struct {
	Services       []string            `json:"services"`      // of every node
	Nodes          map[int]setupNode   `json:"nodes"`         // by number; also of nodes that are added later
	ServerGroups   []string            `json:"server_groups"` // of the nodes in turn
	Buckets        []setupBucket       `json:"buckets"`       // instead of --bucket; an empty list makes none
	Users          []setupUser         `json:"users"`         // beside --username
	Tokens         map[string]string   `json:"tokens"`        // of OAUTHBEARER, with the account of each
	Mechanisms     []string            `json:"mechanisms"`    // of SASL
	Iterations     int                 `json:"iterations"`    // of SCRAM, for accounts that name no other
	SubdocMaxPaths int                 `json:"subdoc_max_paths"`
	RefuseFeatures []string            `json:"refuse_features"` // of HELLO
	Capabilities   map[string][]string `json:"capabilities"`    // of the services n1ql and search
	HTTP2          bool                `json:"http2"`           // on TLS ports
	ReportUnits    bool                `json:"report_units"`
	AppTelemetry   bool                `json:"app_telemetry"`
	Seed           *uint64             `json:"seed"` // of uuids
}

type setupNode struct {
	Version  string   `json:"version"`
	Services []string `json:"services"`
}

type setupBucket struct {
	Name          string   `json:"name"`
	Type          string   `json:"type"`
	VBuckets      int      `json:"vbuckets"`
	Replicas      *int     `json:"replicas"`
	Collections   []string `json:"collections"` // scope.collection
	Durability    string   `json:"min_durability"`
	Compression   string   `json:"compression"`
	ResolveByTime bool     `json:"resolve_by_time"`
}

type setupUser struct {
	Name       string   `json:"name"`
	Password   string   `json:"password"`
	Buckets    []string `json:"buckets"` // none: an administrator
	External   bool     `json:"external"`
	Reader     bool     `json:"reader"` // changes no documents
	Iterations int      `json:"iterations"`
}

const (
	setupMax     = 16 << 20 // bytes of a file
	setupNodeMax = 64       // nodes of a mock cluster
)

// readSetup reads the value of --setup: JSON, or the name of a file of it.
func readSetup(value string) (*mockSetup, error) {
	if strings.HasPrefix(strings.TrimSpace(value), "{") {
		return parseSetup([]byte(value))
	}
	f, err := os.Open(value)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, setupMax+1))
	if err != nil {
		return nil, err
	}
	if len(text) > setupMax {
		return nil, fmt.Errorf("%s has more than %d bytes", value, setupMax)
	}
	return parseSetup(text)
}

// parseSetup reads a setup and nothing behind it. Its errors name the place.
func parseSetup(text []byte) (*mockSetup, error) {
	out := new(mockSetup)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(out); err != nil {
		return nil, placed(text, err)
	}
	if behind := bytes.TrimLeft(text[d.InputOffset():], " \t\r\n"); len(behind) > 0 {
		return nil, atByte(text, int64(len(text)-len(behind)+1), errors.New("there is more behind the JSON object"))
	}
	return out, nil
}

// placed adds its place to an error of JSON. One about an unknown member has none, and names the member.
func placed(text []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return atByte(text, syntax.Offset, err)
	case errors.As(err, &kind):
		return atByte(text, kind.Offset, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return atByte(text, int64(len(text))+1, errors.New("the JSON object has no end"))
	}
	return err
}

// atByte adds to an error the place of a byte, counted from one.
func atByte(text []byte, n int64, err error) error {
	before := text[:min(max(n, 1)-1, int64(len(text)))]
	line := bytes.Count(before, []byte("\n"))
	return fmt.Errorf("line %d, byte %d: %w", line+1, len(before)-bytes.LastIndexByte(before, '\n'), err)
}

// setupServices are the services by the names that a server has for them.
func setupServices(names []string) ([]mock.Service, error) {
	var out []mock.Service
	for _, name := range names {
		s, ok := map[string]mock.Service{
			"kv": mock.KVService, "mgmt": mock.ManagementService, "views": mock.ViewsService, "n1ql": mock.QueryService,
			"fts": mock.SearchService, "cbas": mock.AnalyticsService,
			"eventing": mock.EventingService,
		}[name]
		if !ok {
			return nil, fmt.Errorf("services: %q, want kv, mgmt, views, n1ql, fts, cbas or eventing", name)
		}
		out = append(out, s)
	}
	return out, nil
}

// options are those of the cluster, and the names of the buckets that it begins with; nil where it names none.
func (s *mockSetup) options() (opts []mock.Option, buckets []string, err error) {
	if s.Services != nil {
		list, err := setupServices(s.Services)
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, mock.Services(list...))
	}
	for _, i := range slices.Sorted(maps.Keys(s.Nodes)) {
		n := s.Nodes[i]
		if i < 0 || i >= setupNodeMax {
			return nil, nil, fmt.Errorf("nodes: %d, want 0 to %d", i, setupNodeMax-1)
		}
		if n.Version != "" {
			opts = append(opts, mock.NodeVersion(i, n.Version))
		}
		if n.Services != nil {
			list, err := setupServices(n.Services)
			if err != nil {
				return nil, nil, fmt.Errorf("nodes: %d: %w", i, err)
			}
			opts = append(opts, mock.NodeServices(i, list...))
		}
	}
	if s.Buckets != nil {
		opts, buckets = append(opts, mock.NoBuckets()), []string{}
	}
	for i := range s.Buckets {
		o, err := s.Buckets[i].option()
		if err != nil {
			return nil, nil, fmt.Errorf("buckets: %d: %w", i, err)
		}
		opts, buckets = append(opts, o), append(buckets, s.Buckets[i].Name)
	}
	for _, u := range s.Users {
		opts = append(opts, u.options()...)
	}
	more, err := s.protocol()
	return append(opts, more...), buckets, err
}

// protocol are the options about what nodes grant and how clients log in.
func (s *mockSetup) protocol() (opts []mock.Option, err error) {
	for token, name := range s.Tokens {
		opts = append(opts, mock.Token(token, name))
	}
	for service, names := range s.Capabilities {
		opts = append(opts, mock.Capabilities(service, names...))
	}
	for _, name := range s.RefuseFeatures {
		f := memd.Feature(0)
		for f < 64 && !strings.EqualFold(f.String(), name) {
			f++
		}
		if !f.Known() {
			return nil, fmt.Errorf("refuse_features: %q is unknown", name)
		}
		opts = append(opts, mock.WithoutFeatures(f))
	}
	for _, o := range []struct {
		given  bool
		option func() mock.Option
	}{
		{s.Mechanisms != nil, func() mock.Option { return mock.Mechanisms(s.Mechanisms...) }},
		{s.ServerGroups != nil, func() mock.Option { return mock.ServerGroups(s.ServerGroups...) }},
		{s.Iterations != 0, func() mock.Option { return mock.Iterations(s.Iterations) }},
		{s.SubdocMaxPaths != 0, func() mock.Option { return mock.SubdocMaxPaths(s.SubdocMaxPaths) }},
		{s.Seed != nil, func() mock.Option { return mock.Seed(*s.Seed) }},
		{s.HTTP2, mock.HTTP2},
		{s.ReportUnits, mock.ReportUnits},
		{s.AppTelemetry, mock.AppTelemetry},
	} {
		if o.given {
			opts = append(opts, o.option())
		}
	}
	return opts, nil
}

func (b *setupBucket) option() (mock.Option, error) {
	kind, err := mock.KindOfBucket(b.Type)
	if err != nil {
		return nil, err
	}
	opts := []mock.BucketOption{kind}
	if b.Replicas != nil {
		opts = append(opts, mock.WithReplicas(*b.Replicas))
	}
	for _, path := range b.Collections {
		scope, collection, ok := strings.Cut(path, ".")
		if !ok {
			return nil, fmt.Errorf("collection %q, want scope.collection", path)
		}
		opts = append(opts, mock.WithCollection(scope, collection))
	}
	if b.Durability != "" {
		levels := []string{"", "majority", "majorityAndPersistActive", "persistToMajority"}
		i := slices.Index(levels, b.Durability)
		if i < 0 {
			return nil, fmt.Errorf("min_durability %q, want one of %s", b.Durability,
				strings.Join(levels[1:], ", "))
		}
		opts = append(opts, mock.WithDurability(memd.DurabilityLevel(i)))
	}
	if b.Compression != "" {
		opts = append(opts, mock.Compression(b.Compression))
	}
	if b.ResolveByTime {
		opts = append(opts, mock.ResolveByTime())
	}
	return mock.Bucket(b.Name, b.VBuckets, opts...), nil
}

func (u *setupUser) options() []mock.Option {
	account := mock.User
	switch {
	case u.External:
		account = mock.ExternalUser
	case u.Reader:
		account = mock.Reader
	}
	out := []mock.Option{account(u.Name, u.Password, u.Buckets...)}
	if u.Iterations != 0 {
		out = append(out, mock.Iterations(u.Iterations, u.Name))
	}
	return out
}
