package main

import (
	"context"
	"encoding/json"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/views"
)

type viewCmd struct {
	clusterFlags

	Design        string            `arg:"" help:"The design document."`
	View          string            `arg:"" help:"The view."`
	Development   bool              `name:"dev" help:"The design document in development (default: the published one)."`
	Stale         string            `enum:",false,ok,update-after" default:"" placeholder:"WHEN" help:"false, ok or update-after (default: the service's)."`
	Descending    bool              `help:"Backwards (default: no)."`
	Skip          int               `placeholder:"N" help:"How many rows to leave out at the start (default: 0)."`
	Limit         int               `placeholder:"N" help:"How many rows at most (default: all)."`
	Key           string            `placeholder:"JSON" help:"Rows with this key only."`
	Keys          string            `placeholder:"JSON" help:"Rows with one of these keys only: an array."`
	StartKey      string            `placeholder:"JSON" help:"Rows from this key on."`
	EndKey        string            `placeholder:"JSON" help:"Rows up to this key."`
	StartKeyDocID string            `name:"start-key-doc-id" placeholder:"ID" help:"Among the rows with the start key: from this document on."`
	EndKeyDocID   string            `name:"end-key-doc-id" placeholder:"ID" help:"Among the rows with the end key: up to this document."`
	ExclusiveEnd  bool              `help:"Exclude the end key itself (default: include it)."`
	Reduce        bool              `negatable:"" default:"true" help:"Reduce, if the view can (default: yes)."`
	Group         bool              `help:"Group the reduction by key (default: no)."`
	GroupLevel    int               `placeholder:"N" help:"Group the reduction by the first N elements of array keys (default: no)."`
	OnError       string            `enum:",stop,continue" default:"" placeholder:"WHAT" help:"stop or continue when a node fails (default: the service's)."`
	Debug         bool              `help:"Ask for debugging information (default: no)."`
	Raw           map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"A parameter as it is. Can be repeated."`
	Endpoint      string            `placeholder:"HOST:PORT" help:"The node to ask (default: any with data of the bucket)."`
}

// request is what the flags describe.
func (c *viewCmd) request() (*views.Request, error) {
	r := &views.Request{
		Design: c.Design, View: c.View, Development: c.Development, Skip: c.Skip, Limit: c.Limit,
		StartKeyDocID: c.StartKeyDocID,
		EndKeyDocID:   c.EndKeyDocID, Group: c.Group, GroupLevel: c.GroupLevel, Debug: c.Debug, Timeout: c.Timeout,
		Raw:      c.Raw,
		Endpoint: c.Endpoint,
		Stale: map[string]views.Stale{
			"false": views.StaleFalse, "ok": views.StaleOK, "update-after": views.StaleUpdateAfter,
		}[c.Stale],
		OnError: map[string]views.OnError{"stop": views.OnErrorStop, "continue": views.OnErrorContinue}[c.OnError],
	}
	if c.Descending {
		r.Order = views.Descending
	}
	if c.ExclusiveEnd {
		r.InclusiveEnd = views.Off
	}
	if !c.Reduce {
		r.Reduce = views.Off
	}
	for _, k := range []struct {
		flag, text string
		to         *any
	}{{"--key", c.Key, &r.Key}, {"--start-key", c.StartKey, &r.StartKey}, {"--end-key", c.EndKey, &r.EndKey}} {
		v, err := jsonFlag(k.flag, k.text)
		if err != nil {
			return nil, err
		}
		if v != nil {
			*k.to = v
		}
	}
	keys, err := jsonFlag("--keys", c.Keys)
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if keys != nil {
		if err := json.Unmarshal(keys, &list); err != nil {
			return nil, usagef("--keys %s is not an array", c.Keys)
		}
	}
	for _, k := range list {
		r.Keys = append(r.Keys, k)
	}
	return r, nil
}

// Run implements the command.
func (c *viewCmd) Run(a *app) error {
	r, err := c.request()
	if err != nil {
		return err
	}
	return c.runRows(a, func(ctx context.Context, cl *core.Cluster, bucket string) (answer, error) {
		rows, err := cl.Bucket(bucket).View(ctx, r)
		if err != nil {
			return answer{}, err
		}
		return answer{rows, func() (json.RawMessage, []string, error) {
			m, err := rows.Meta()
			var warnings []string
			for _, e := range m.Errors {
				warnings = append(warnings, e.From+": "+e.Reason)
			}
			return m.Raw, warnings, err
		}}, nil
	})
}
