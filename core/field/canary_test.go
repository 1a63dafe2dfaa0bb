package field_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// The canaries are a password and a token. Nothing that the client gives out, prints or logs may hold them, in any
// form.
const (
	canaryUser     = "canary-user"
	canaryPassword = "canary-password-4711"
	canaryToken    = "canary.token-0815.sig"
)

func canaries() []string {
	var all []string
	for _, s := range []string{canaryPassword, canaryToken} {
		all = append(all, s, hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s))),
			base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)))
	}
	return append(all, base64.StdEncoding.EncodeToString([]byte(canaryUser+":"+canaryPassword)))
}

// collection is what a program gets from the client, by a name for failures.
type collection struct {
	mu   sync.Mutex
	all  map[string]any
	logs bytes.Buffer
}

func (c *collection) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.logs.Write(p)
}

// add keeps values, of a call as a whole: its result and its error.
func (c *collection) add(name string, values ...any) {
	for i, v := range values {
		c.all[fmt.Sprintf("%s[%d]", name, i)] = v
		for err, ok := v.(error); ok && err != nil; err = errors.Unwrap(err) {
			c.all[fmt.Sprintf("%s[%d] %T", name, i, err)] = err
		}
	}
}

// silent prints a value in every way that Go has and looks for the canaries.
func silent(t *testing.T, name string, v any) {
	t.Helper()
	look := func(how, text string) {
		for _, s := range canaries() {
			if strings.Contains(text, s) {
				t.Errorf("%s: %s shows a secret", name, how)
				return
			}
		}
	}
	for _, flags := range []string{"", "+", "#", " ", "-", "0", "+#", "30"} {
		for verb := 'A'; verb <= 'z'; verb++ {
			if verb == 'w' { // fmt then walks the value past its Format: see shownByReflection
				continue
			}
			format := "%" + flags + string(verb)
			text := fmt.Sprintf(format, v)
			look(format, text)
			for _, s := range []string{canaryPassword, canaryToken} { // bytes print as numbers, and so on
				if form := strings.Trim(fmt.Sprintf(format, []byte(s)), "[]{} "); len(form) > len(s) &&
					strings.Contains(text, form) {
					t.Errorf("%s: %s shows a secret", name, format)
				}
			}
		}
	}
	if j, err := json.Marshal(v); err == nil {
		look("JSON", string(j))
	} else {
		look("an error of JSON", err.Error())
	}
	var lines bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&lines, nil), slog.NewJSONHandler(&lines, nil)} {
		slog.New(h).Info("m", "v", v, slog.Group("g", slog.Any("v", v)))
	}
	look("slog", lines.String())
	func() {
		defer func() { look("a recovered panic", fmt.Sprint(recover())) }()
		panic(v)
	}()
	look("an error", fmt.Errorf("wrapped: %v, %+v", v, v).Error())
}

// shownByReflection looks for the canaries in what fmt finds when it ignores the methods of a value, as it does for %w
// outside of Errorf. The clusters are closed by then: such a walk reads what their goroutines write.
func shownByReflection(t *testing.T, name string, v any) {
	t.Helper()
	for _, flags := range []string{"", "+", "#"} {
		text := fmt.Sprintf("%"+flags+"w", v)
		for _, s := range canaries() {
			require.NotContains(t, text, s, name)
		}
	}
}

// canaryCluster is a cluster that knows the canaries, with scripted services.
func canaryCluster(t *testing.T) *mock.Cluster {
	t.Helper()
	m := mock.Start(t, mock.Nodes(2), mock.TLS(), mock.User(canaryUser, canaryPassword), mock.User("other", "p"),
		mock.Token(canaryToken, canaryUser))
	for _, svc := range []mock.Service{mock.QueryService, mock.AnalyticsService} {
		m.Script(mock.ServiceMatch{Service: svc}, mock.Answer{Body: []byte(`{"results":[{"n":1}],"status":"success"}`)})
	}
	m.Script(mock.ServiceMatch{Service: mock.SearchService}, mock.Answer{Body: []byte(`{"status":{"total":1},"hits":[{"id":"a"}],"total_hits":1}`)})
	m.Script(mock.ServiceMatch{Service: mock.ViewsService}, mock.Answer{Body: []byte(`{"total_rows":1,"rows":[{"id":"a","key":1,"value":2}]}`)})
	return m
}

// use makes calls of every kind, good and failed, and keeps what they give.
func (c *collection) use(t *testing.T, cl *core.Cluster) {
	t.Helper()
	ctx := within(t, time.Minute)
	b := cl.Bucket("default")
	c.add("cluster", cl, cl.WaitReady(ctx, core.Ready{}), cl.RetryStats(), cl.Diagnostics(), cl.Endpoints(core.Query),
		cl.Loop("l"))
	mp, ok := b.Map()
	layout, err := b.Layout(ctx)
	c.add("bucket", b, b.Status(), mp, ok, layout, err)
	ping, err := cl.Ping(ctx, core.PingOptions{})
	c.add("ping", ping, err)

	for name, op := range map[string]func() (any, error){
		"upsert":  func() (any, error) { return kv.Do(ctx, b, kv.Upsert{Key: []byte("k"), Value: []byte(`{"a":1}`)}) },
		"get":     func() (any, error) { return kv.Do(ctx, b, kv.Get{Key: []byte("k")}) },
		"missing": func() (any, error) { return kv.Do(ctx, b, kv.Get{Key: []byte("none")}) },
		"bad key": func() (any, error) { return kv.Do(ctx, b, kv.Get{Key: bytes.Repeat([]byte("k"), 300)}) },
		"lookup": func() (any, error) {
			return kv.Do(ctx, b, kv.LookupIn{Key: []byte("k"), Specs: []kv.LookupSpec{{Path: "a"}}})
		},
		"stats": func() (any, error) { return kv.Do(ctx, b, kv.Stat{}) },
		"many": func() (any, error) {
			return kv.GetMulti(ctx, b, kv.Common{}, [][]byte{[]byte("k"), []byte("none")}), nil
		},
		"no scope": func() (any, error) {
			return kv.Do(ctx, b, kv.Get{Key: []byte("k"), Common: kv.Common{Scope: "s", Collection: "c"}})
		},
		"query": func() (any, error) { return cl.Query(ctx, &query.Request{Statement: "SELECT 1"}) },
		"search": func() (any, error) {
			return cl.Search(ctx, &search.Request{Index: "i", Query: []byte(`{"match_all":{}}`)})
		},
		"analytics": func() (any, error) {
			return cl.Analytics(ctx, &analytics.Request{Statement: "SELECT 1"})
		},
		"view":     func() (any, error) { return b.View(ctx, &views.Request{Design: "d", View: "v"}) },
		"manifest": func() (any, error) { return b.Manifest(ctx) },
		"buckets":  func() (any, error) { return cl.Buckets(ctx) },
		"raw": func() (any, error) {
			return cl.Do(ctx, &core.HTTPRequest{Service: core.Management, Method: "GET", Path: "/pools"})
		},
		"absent": func() (any, error) {
			return cl.Do(ctx, &core.HTTPRequest{Service: core.Management, Method: "GET", Path: "/nothing"})
		},
		"busy": func() (any, error) {
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			return cl.Do(short, &core.HTTPRequest{Service: core.Eventing, Method: "GET", Path: "/nothing"})
		},
	} {
		res, err := op()
		c.add(name, res, err)
		if rows, ok := res.(interface {
			Next() bool
			Err() error
		}); ok {
			for rows.Next() {
			}
			c.add(name+" rows", rows.Err())
		}
		switch res := res.(type) {
		case *core.HTTPResponse:
			if res != nil {
				_ = res.Body.Close()
			}
		case io.Closer:
			_ = res.Close()
		}
	}
	f := kv.Start(ctx, b, kv.Get{Key: []byte("k")})
	res, err := f.Wait(ctx)
	c.add("future", f, res, err)
	c.add("runner", b.Runner(), b.Runner().NewCall())
	require.Contains(t, fmt.Sprintf("%v %d", b.Runner(), b.Runner()), "dispatcher of bucket", "by name: it is in use")
}

// TestNothingShowsASecret_D139 prints everything that a program gets from clusters of every kind of login, good,
// refused and replaced, before and after they are closed.
func TestNothingShowsASecret_D139(t *testing.T) {
	m := canaryCluster(t)
	c := &collection{all: map[string]any{}}
	var open []*core.Cluster
	for name, change := range map[string]func(*core.Config){
		"password": func(*core.Config) {},
		"plain":    func(cfg *core.Config) { cfg.Auth.Mechanisms = []string{"PLAIN"} },
		"token": func(cfg *core.Config) {
			cfg.Auth.Username, cfg.Auth.Password, cfg.Auth.Token = "", core.Secret{}, core.NewSecret(canaryToken)
		},
		"provider": func(cfg *core.Config) {
			cfg.Auth.Credentials = func(context.Context) (core.Credentials, error) {
				return core.Credentials{Username: canaryUser, Password: core.NewSecret(canaryPassword)}, nil
			}
		},
		"refused": func(cfg *core.Config) { cfg.Auth.Username = "other" },
		"nowhere": func(cfg *core.Config) { cfg.Seeds.Hosts = []string{"127.0.0.1:1"} },
	} {
		cfg := overTLS(t, m, canaryUser, canaryPassword)
		cfg.Observe.Log = slog.New(slog.NewTextHandler(c, &slog.HandlerOptions{Level: slog.LevelDebug}))
		cfg.KV.Timeout = 300 * time.Millisecond
		change(&cfg)
		cl := openConfig(t, cfg)
		open = append(open, cl)
		creds := core.Credentials{Username: cfg.Auth.Username, Password: cfg.Auth.Password, Token: cfg.Auth.Token}
		c.add(name, cfg, &cfg, creds, &creds, cfg.Auth.Password, cfg.Auth.Token,
			map[string]core.Secret{"a": cfg.Auth.Password}, []core.Secret{cfg.Auth.Password})
		if name == "refused" || name == "nowhere" {
			b := cl.Bucket("default")
			err := b.WaitReady(within(t, 300*time.Millisecond))
			require.Error(t, err)
			_, err2 := kv.Do(within(t, time.Second), b, kv.Get{Key: []byte("k")})
			require.Error(t, err2)
			resp, err3 := cl.Do(within(t, time.Second), &core.HTTPRequest{
				Service: core.Query, Method: "GET",
				Path: "/admin/ping",
			})
			c.add(name, cl, b, err, err2, resp, err3, b.Status(), cl.Diagnostics())
			continue
		}
		c.use(t, cl)
		c.add(name+" replaced", cl.SetCredentials(creds),
			cl.SetCredentials(core.Credentials{Token: core.NewSecret(canaryToken), Username: canaryUser}))
		cl.RenewLogins()
	}
	_, err := core.ParseConnString("couchbase://" + canaryUser + ":" + canaryPassword + "@h")
	_, err2 := core.ParseConnString("couchbase://h?password=" + canaryPassword)
	spec, err3 := core.ParseSpec("couchbase://h?unknown_secret=" + canaryPassword)
	c.add("connection strings", err, err2, err3)
	_, err4 := core.Open(t.Context(), core.Config{
		Auth: core.AuthConfig{Token: core.NewSecret(canaryToken)},
		TLS:  core.TLSConfig{Required: true},
	})
	c.add("configuration", err4)
	request := core.HTTPRequest{
		Service: core.Management, Method: "PUT", Path: "/settings/rbac/users/local/x",
		Header: map[string]string{"Authorization": "Bearer " + canaryToken},
		Body:   []byte("password=" + canaryPassword),
	}
	for name, v := range c.all {
		silent(t, name, v)
	}
	// what the program itself has put there is not printed either
	for _, v := range []any{spec, &spec, request, &request} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			require.NotContains(t, fmt.Sprintf(format, v), "canary")
			require.NotContains(t, fmt.Sprintf(format, v), hex.EncodeToString([]byte("canary")))
		}
	}
	for _, cl := range open {
		require.NoError(t, cl.Close())
	}
	for name, v := range c.all {
		shownByReflection(t, name, v)
	}
	c.mu.Lock()
	text := c.logs.String()
	c.mu.Unlock()
	require.Contains(t, text, "AUTHENTICATION_ERROR")
	for _, s := range canaries() {
		require.NotContains(t, text, s)
	}
	w := walker{seen: map[visit]bool{}, types: map[string]bool{}}
	for name, v := range c.all {
		w.walk(name, v)
	}
	require.Empty(t, w.found)
	for _, kind := range []string{
		"core.Cluster", "core.logins", "handshake.Keyring", "dispatch.Router", "conn.Conn",
		"httpx.Client", "observe.Secret", "call.Error",
	} {
		require.True(t, w.types[kind], "the scan does not get to %s", kind)
	}
}

// TestAPanicShowsNoSecret_D139: what the runtime prints of a value that is not recovered.
func TestAPanicShowsNoSecret_D139(t *testing.T) {
	const which = "COUCHCORE_PANIC_WITH"
	cfg := core.Config{Auth: core.AuthConfig{Username: canaryUser, Password: core.NewSecret(canaryPassword)}}
	c := openConfig(t, cfg)
	_, err := kv.Do(within(t, time.Second), c.Bucket("b"), kv.Get{
		Key:    []byte("k"),
		Common: kv.Common{Timeout: 10 * time.Millisecond},
	})
	require.ErrorIs(t, err, cberr.Timeout)
	values := map[string]any{
		"cluster": c, "bucket": c.Bucket("b"), "config": cfg, "secret": cfg.Auth.Password, "error": err,
		"credentials": core.Credentials{Password: cfg.Auth.Password},
	}
	if name := os.Getenv(which); name != "" {
		panic(values[name])
	}
	for name := range values {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAPanicShowsNoSecret_D139$")
		cmd.Env = append(os.Environ(), which+"="+name)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "panic: ")
		for _, s := range canaries() {
			require.NotContains(t, string(out), s, name)
		}
	}
}

// TestTheScanFindsPlantedSecrets_D139: a secret in any corner is found, so that finding none proves something.
func TestTheScanFindsPlantedSecrets_D139(t *testing.T) {
	type inner struct{ text string }
	type outer struct {
		byName map[string]*inner
		list   []any
		kept   func() string
	}
	secret := "x" + canaryPassword + "y"
	for name, v := range map[string]any{
		"map":       &outer{byName: map[string]*inner{"k": {secret}}},
		"key":       map[inner]int{{secret}: 1},
		"interface": outer{list: []any{&inner{secret}}},
		"bytes":     &struct{ b [64]byte }{[64]byte([]byte(secret + strings.Repeat(" ", 64-len(secret))))},
		"header": http.Header{"Authorization": {"Basic " +
			base64.StdEncoding.EncodeToString([]byte(canaryUser+":"+canaryPassword))}},
	} {
		w := walker{seen: map[visit]bool{}, types: map[string]bool{}}
		w.walk(name, v)
		require.Len(t, w.found, 1, name)
	}
	w := walker{seen: map[visit]bool{}, types: map[string]bool{}}
	w.walk("function", outer{kept: func() string { return secret }})
	require.Empty(t, w.found)
}
