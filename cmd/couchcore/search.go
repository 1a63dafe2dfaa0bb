package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/search"
)

type searchCmd struct {
	clusterFlags
	scopeFlag

	Index     string            `arg:"" help:"The index."`
	Query     string            `arg:"" optional:"" help:"A query object as JSON, or a text in the syntax of query strings; - reads standard input."`
	Limit     int               `placeholder:"N" help:"How many hits at most (default: the service's 10)."`
	Skip      int               `placeholder:"N" help:"How many to leave out at the start (default: 0)."`
	Fields    []string          `placeholder:"NAME" help:"Stored fields to show with each hit; * is all of them (default: none)."`
	Sort      []string          `sep:"none" placeholder:"FIELD" help:"A field, with - in front for descending (--sort=-name), or a sort object as JSON. Can be repeated (default: by score)."`
	Within    []string          `name:"collections" placeholder:"NAME" help:"Only documents of these collections (default: all of the index)."`
	Facet     map[string]string `mapsep:"none" placeholder:"NAME=JSON" help:"A facet to count. Can be repeated."`
	Vector    map[string]string `mapsep:"none" placeholder:"FIELD=JSON" help:"Look for the vectors nearest to this one: an array of numbers, or base64. Can be repeated."`
	Nearest   int               `name:"k" default:"3" placeholder:"N" help:"How many nearest vectors (default: 3)."`
	Highlight string            `enum:",html,ansi" default:"" placeholder:"STYLE" help:"Mark what matched: html or ansi (default: no mark)."`
	Explain   bool              `help:"Explain each score (default: no)."`
	Locations bool              `help:"Show where each hit has the terms (default: no)."`
	NoScoring bool              `help:"Do not compute scores (default: they are)."`
	Raw       map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"A field of the request as it is. Can be repeated."`
	Endpoint  string            `placeholder:"HOST:PORT" help:"The node to ask (default: any)."`
}

// request is what the flags describe. With --scope the index is one of that scope.
func (c *searchCmd) request(a *app) (*search.Request, error) {
	r := &search.Request{
		Index: c.Index, Scope: c.Scope, Size: c.Limit, From: c.Skip, Fields: c.Fields, Collections: c.Within,
		Explain:          c.Explain,
		IncludeLocations: c.Locations, NoScoring: c.NoScoring, Timeout: c.Timeout, Raw: jsonValues(c.Raw),
		Endpoint: c.Endpoint,
	}
	text, err := valueOf(a, c.Query)
	if err != nil {
		return nil, err
	}
	switch text := strings.TrimSpace(string(text)); {
	case strings.HasPrefix(text, "{"):
		if r.Query, err = jsonFlag("search: QUERY", text); err != nil {
			return nil, err
		}
	case text != "":
		r.Query = map[string]any{"query": text}
	case len(c.Vector) == 0:
		return nil, usagef("search: give a QUERY or a --vector")
	}
	for _, s := range c.Sort {
		r.Sort = append(r.Sort, jsonOrText(s))
	}
	for name, text := range c.Facet {
		f, err := jsonFlag("--facet "+name, text)
		if err != nil {
			return nil, err
		}
		if r.Facets == nil {
			r.Facets = map[string]any{}
		}
		r.Facets[name] = f
	}
	for _, field := range slices.Sorted(maps.Keys(c.Vector)) {
		v := search.VectorQuery{Field: field, K: c.Nearest}
		if text := c.Vector[field]; !strings.HasPrefix(text, "[") {
			v.Base64 = text
		} else if err := json.Unmarshal([]byte(text), &v.Vector); err != nil {
			return nil, usagef("--vector %s: %v", field, err)
		}
		r.Vectors = append(r.Vectors, v)
	}
	if c.Highlight != "" {
		r.Highlight = &search.Highlight{Style: c.Highlight}
	}
	return r, nil
}

// Run implements the command.
func (c *searchCmd) Run(a *app) error {
	r, err := c.request(a)
	if err != nil {
		return err
	}
	return c.runRows(a, func(ctx context.Context, cl *core.Cluster, bucket string) (answer, error) {
		if r.Scope != "" {
			r.Bucket = bucket
		}
		rows, err := cl.Search(ctx, r)
		if err != nil {
			return answer{}, err
		}
		return answer{rows, func() (json.RawMessage, []string, error) {
			m, err := rows.Meta()
			var warnings []string
			if m.Status.Partial() {
				warnings = append(warnings, "hits are missing: "+plural(int(m.Status.Failed), "partition")+" failed")
			}
			for _, name := range slices.Sorted(maps.Keys(m.Status.Errors)) {
				warnings = append(warnings, name+": "+m.Status.Errors[name])
			}
			return m.Raw, warnings, err
		}}, nil
	})
}
