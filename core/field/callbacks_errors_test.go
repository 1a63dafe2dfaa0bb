package field_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// nilError is an error type as programs have it; a nil pointer of it is not nil as an error, and panics when it is
// printed.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// closerNil is one that panics when it is looked at, too.
type closerNil struct{ text string }

func (e *closerNil) Error() string { return e.text }
func (e *closerNil) Is(error) bool { return e.text == "" }
func (e *closerNil) Unwrap() error { _ = e.text; return nil }

// ringError wraps itself.
type ringError struct{}

func (e *ringError) Error() string { return "ring" }
func (e *ringError) Unwrap() error { return e }

// failsReading is a connection whose Read fails.
type failsReading struct {
	net.Conn
	err error
}

func (c failsReading) Read([]byte) (int, error) { return 0, c.err }

// The error that a callback gives may itself be one that panics, or that never ends. It stands for a failure like any
// other, and can be printed wherever it comes to.
func TestErrorsThatCannotBeUsed_D135(t *testing.T) {
	for kind, odd := range map[string]error{
		"nil of a type":         (*nilError)(nil),
		"nil that is looked at": (*closerNil)(nil), "a ring": &ringError{},
	} {
		for callback, change := range map[string]func(*core.Config){
			"Dial": func(c *core.Config) {
				c.Net.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, odd }
			},
			"a panic": func(c *core.Config) {
				c.Net.Dial = func(context.Context, string, string) (net.Conn, error) { panic(odd) }
			},
			"Resolver": func(c *core.Config) {
				c.Seeds.SRV, c.Seeds.Resolver = "_x", resolverFunc(func() ([]*net.SRV, error) { return nil, odd })
			},
			"Credentials": func(c *core.Config) {
				c.Auth.Credentials = func(context.Context) (core.Credentials, error) { return core.Credentials{}, odd }
			},
			"NodeFilter": func(c *core.Config) { c.Net.NodeFilter = func(string) error { return odd } },
			"Read": func(c *core.Config) {
				c.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
					return failsReading{nc, odd}, err
				}
			},
			"VerifyConnection": func(c *core.Config) {
				c.TLS.Config = &tls.Config{
					InsecureSkipVerify: true,
					VerifyConnection:   func(tls.ConnectionState) error { return odd },
				}
			},
		} {
			t.Run(callback+", "+kind, func(t *testing.T) {
				s := scripted.New(t, 1)
				if callback == "VerifyConnection" {
					certificate, _ := certificateOf(t)
					l, err := net.Listen("tcp", "127.0.0.1:0")
					require.NoError(t, err)
					s = &scripted.Cluster{Features: scripted.AllFeatures()}
					s.AddListener(t, tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}}))
				}
				s.Map = func(_ *scripted.Node, bucket string) []byte {
					return s.Render(scripted.Spec{
						Bucket: bucket, Hostname: func(*scripted.Node) string { return "127.0.0.9" },
						Services: func(n *scripted.Node) string { return `{"kv":` + strconv.Itoa(n.Port()) + `,"n1ql":1}` },
					})
				}
				c := open(t, s, func(cfg *core.Config) {
					cfg.Observe.Log = slog.New(slog.NewTextHandler(io.Discard,
						&slog.HandlerOptions{Level: slog.LevelDebug}))
					change(cfg)
				})
				b := c.Bucket("default")
				begun := time.Now()
				if callback != "Resolver" { // the host is there
					_ = fmt.Sprint(b.WaitReady(within(t, 100*time.Millisecond)))
					_, err := kv.Do(within(t, 100*time.Millisecond), b, kv.Get{Key: []byte("k")})
					require.Error(t, err)
					require.NotEmpty(t, err.Error())
				}
				err := runQuery(within(t, 100*time.Millisecond), c, &query.Request{
					Statement: "SELECT 1",
					Readonly:  true,
				})
				require.NotEmpty(t, err.Error())
				require.NotEmpty(t, c.Diagnostics())
				require.NoError(t, c.Close())
				require.Less(t, time.Since(begun), 5*time.Second)
			})
		}
	}
}

// So may the cause of a context's end, what a strategy fails a call with, and what a body of the caller's gives.
func TestErrorsOfACallThatCannotBeUsed_D135(t *testing.T) {
	for kind, odd := range map[string]error{
		"nil of a type":         (*nilError)(nil),
		"nil that is looked at": (*closerNil)(nil),
	} {
		s := scripted.New(t, 1)
		b := ready(t, s)
		s.Nodes[0].SetHook(answers(memd.StatusTmpFail, memd.OpGet))
		_, err := kv.Do(fresh(t), b, kv.Get{Key: []byte("k"), Common: kv.Common{
			Retry: retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action {
				return retry.StopWith(func(error) error { return odd })
			}),
		}})
		require.NotEmpty(t, err.Error(), kind)
		s.Nodes[0].SetHook(func(_ *scripted.Session, p *memd.Packet) bool { return p.Opcode == memd.OpGet })
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(20*time.Millisecond, func() { cancel(odd) })
		_, err = kv.Do(ctx, b, kv.Get{Key: []byte("k")})
		require.NotEmpty(t, err.Error(), kind)
		require.NotErrorIs(t, err, io.EOF)
		c := services(t, (&script{}).ServeHTTP)
		_, err = c.Do(fresh(t), &core.HTTPRequest{
			Method: "PUT", Path: "/x", Stream: oddBody{
				func([]byte) (int, error) { return 0, odd },
				func() error { return nil },
			},
		})
		require.NotEmpty(t, err.Error(), kind)
	}
}
