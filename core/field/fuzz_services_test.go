package field_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// FuzzServices: services and the management service that answer with any status, headers and body, cut anywhere. Each
// request ends by its deadline, and a failure is of a kind.
func FuzzServices(f *testing.F) {
	f.Add(uint16(200), []byte(`{"results":[1,{"a":2}],"status":"success","metrics":{"resultCount":2}}`), "", uint16(0))
	f.Add(uint16(503), []byte(`{"errors":[{"code":13014,"msg":"x"}]}`), "1", uint16(0))
	f.Add(uint16(200), []byte(`{"results":[1,2`), "", uint16(9))
	f.Add(uint16(200), []byte(`{"status":{"total":1,"failed":1,"errors":{"p":"x"}},"hits":[{}],"facets":{}}`), "", uint16(0))
	f.Add(uint16(404), []byte(`{"error":"not_found","reason":"deleted"}`), "", uint16(0))
	f.Add(uint16(200), []byte(`{"total_rows":1,"rows":[{"id":"a","key":1,"value":null}],"errors":[{"from":"h","reason":"r"}]}`), "", uint16(0))
	f.Add(uint16(200), []byte(`[{"name":"b","bucketType":"membase","uuid":"u"}]`), "", uint16(0))
	f.Add(uint16(302), []byte(`x`), "http://10.0.0.9/", uint16(0))
	f.Fuzz(func(t *testing.T, status uint16, body []byte, header string, cut uint16) {
		if status < 200 || status > 599 {
			status = 200
		}
		synctest.Test(t, func(t *testing.T) { servicesAnswer(t, int(status), body, header, int(cut)) })
	})
}

func servicesAnswer(t *testing.T, status int, body []byte, header string, cut int) {
	m := mock.Start(t, mock.Virtual(), mock.Iterations(4096))
	answer := mock.Answer{Status: status, Body: body, CutBytes: cut, Header: http.Header{
		"Retry-After": {clean(header)}, "Location": {clean(header)},
	}}
	if len(body) == 0 {
		answer.Body = []byte{}
	}
	m.Script(mock.ServiceMatch{}, answer)
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	cfg.Auth.AllowPlain, cfg.Net.Dial, cfg.Net.NodeFilter = true, m.Dial, core.AnyNode
	c, err := core.Open(context.Background(), cfg)
	require.NoError(t, err)
	const limit = 3 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	type rows interface {
		Next() bool
		Close() error
		Err() error
	}
	read := func(r rows, err error) error {
		if err != nil {
			return err
		}
		for r.Next() {
		}
		return errors.Join(r.Err(), r.Close())
	}
	for what, do := range map[string]func() error{
		"query": func() error {
			r, err := c.Query(ctx, &query.Request{Statement: "SELECT 1", Readonly: true})
			if err != nil {
				return err
			}
			return read(r, nil)
		},
		"search": func() error {
			r, err := c.Search(ctx, &search.Request{Index: "i", Query: map[string]any{"match": "a"}})
			if err != nil {
				return err
			}
			return read(r, nil)
		},
		"analytics": func() error {
			r, err := c.Analytics(ctx, &analytics.Request{Statement: "SELECT 1"})
			if err != nil {
				return err
			}
			return read(r, nil)
		},
		"views": func() error {
			r, err := c.Bucket("default").View(ctx, &views.Request{Design: "d", View: "v"})
			if err != nil {
				return err
			}
			return read(r, nil)
		},
		"buckets": func() error {
			_, err := c.Buckets(ctx)
			return err
		},
	} {
		began := time.Now()
		err := do()
		require.LessOrEqual(t, time.Since(began), limit, what)
		if err != nil {
			require.ErrorIs(t, err, cberr.Couchbase, "%s: %T %v", what, err, err)
			require.NotEmpty(t, err.Error())
		}
	}
	require.NoError(t, c.Close())
}

// clean is a header's value that may be sent.
func clean(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] < ' ' || b[i] == 0x7f {
			b[i] = ' '
		}
	}
	return string(b)
}
