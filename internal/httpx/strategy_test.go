package httpx_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/httpx"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// refusedLogin puts a condition into the health of a cluster.
func refusedLogin(h *health.Record, step handshake.Step, status memd.Status, kind *cberr.Kind) {
	h.Track("default", "n1:11210").Failed(&handshake.Error{Step: step, Status: status, Kind: kind})
}

// TestCB31NoUsableNodeAndWhy: a request that has no way to a node is told what the key-value connections have met.
func TestCB31NoUsableNodeAndWhy(t *testing.T) {
	for _, way := range []func(*world){
		func(w *world) { w.nodes = nil },
		func(w *world) { w.net.Refuse("n1:80") },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, statuses("200"), setup{})
			way(w)
			refusedLogin(&w.health, handshake.StepAuth, memd.StatusAuthError, cberr.AuthenticationFailure)
			_, _, err := w.do(&httpsvc.Request{Service: httpsvc.Query, Method: "POST", Path: "/query/service"})
			require.ErrorIs(t, err, cberr.AuthenticationFailure)
			info, _ := retry.InfoOf(err)
			require.Equal(t, retry.AuthenticationError, info.Reason)
			require.Zero(t, time.Since(w.began))
		})
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, statuses("200"), setup{})
			way(w)
			refusedLogin(&w.health, handshake.StepTLS, 0, cberr.TLSFailure)
			_, _, err := w.do(&httpsvc.Request{Service: httpsvc.Search, Method: "POST", Path: "/x"})
			require.ErrorIs(t, err, cberr.TLSFailure)
		})
	}
	synctest.Test(t, func(t *testing.T) { // a way that works is not closed because another one is sick
		w := newWorld(t, statuses("200"), setup{})
		refusedLogin(&w.health, handshake.StepAuth, memd.StatusAuthError, cberr.AuthenticationFailure)
		_, _, err := w.do(get("/a"))
		require.NoError(t, err)
	})
}

// TestCB35NothingOfKeyValue: a bucket without access, a scope or a collection is never why a request to a service
// fails.
func TestCB35NothingOfKeyValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, statuses("200"), setup{})
		w.nodes = nil
		for _, bucket := range []string{"default", ""} {
			w.health.Track(bucket, "n1:11210").Failed(&handshake.Error{
				Step:   handshake.StepSelectBucket,
				Status: memd.StatusAccess, Kind: cberr.BucketAccess,
			})
		}
		for svc := range httpsvc.Index + 1 {
			r := &httpsvc.Request{
				Service: svc, Method: "POST", Path: "/a", Bucket: "default",
				Timeout: 10 * time.Millisecond,
			}
			_, _, err := w.do(r)
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			info, _ := retry.InfoOf(err)
			require.Equal(t, retry.Reasons(0).With(retry.ServiceNotAvailable), info.Reasons, svc)
		}
	})
}

// recording is a strategy that notes what it is asked, and says stop.
type recording struct {
	asked *[]retry.Request
	why   *[]retry.Reason
}

func newRecording() recording { return recording{new([]retry.Request), new([]retry.Reason)} }

func (r recording) RetryAfter(_ context.Context, q *retry.Request, why retry.Reason) retry.Action {
	*r.asked, *r.why = append(*r.asked, *q), append(*r.why, why)
	return retry.Stop()
}

func (recording) Inline() bool { return true }

// TestD79EveryServiceInheritsTheStrategy, D83: of every service the cluster's own strategy is asked, with a deadline
// that is there without the caller's doing.
func TestD79D83EveryServiceInheritsTheStrategyAndHasADeadline(t *testing.T) {
	for svc := range httpsvc.Index + 1 {
		synctest.Test(t, func(t *testing.T) {
			def, own := newRecording(), newRecording()
			w := newWorld(t, statuses("429"), setup{
				retry: retry.Options{Default: def},
				options: func(o *httpx.Options) {
					o.Timeout = func(s httpsvc.Service) time.Duration { return time.Duration(s+1) * time.Minute }
				},
			})
			r := &httpsvc.Request{Service: svc, Method: "POST", Path: "/a"}
			_, _, err := w.do(r)
			require.ErrorIs(t, err, cberr.TemporaryFailure)
			require.Equal(t, []retry.Reason{retry.ServiceResponseCodeIndicated}, *def.why)
			q := (*def.asked)[0]
			require.Equal(t, retry.Service(svc.String()), q.Service)
			require.Equal(t, w.began.Add(time.Duration(svc+1)*time.Minute), q.Deadline)
			require.EqualValues(t, 429, q.Code)

			r.Strategy, r.Timeout = own, time.Second
			_, _, err = w.do(r)
			require.Error(t, err)
			require.Len(t, *def.why, 1)
			require.Equal(t, w.began.Add(time.Second), (*own.asked)[0].Deadline)
		})
	}
	synctest.Test(t, func(t *testing.T) { // without any setting at all
		def := newRecording()
		w := newWorld(t, statuses("429"), setup{retry: retry.Options{Default: def}})
		_, _, _ = w.do(post("/a", ""))
		require.Equal(t, w.began.Add(75*time.Second), (*def.asked)[0].Deadline)
	})
}

// TestD84CancelIsSeenWhileWaiting: a request that waits for its retry ends when its caller, or the client, ends it.
func TestD84CancelIsSeenWhileWaiting(t *testing.T) {
	gone := errors.New("the caller went home")
	for name, end := range map[string]func(w *world, cancel context.CancelCauseFunc){
		"caller": func(_ *world, cancel context.CancelCauseFunc) { cancel(gone) },
		"client": func(w *world, _ context.CancelCauseFunc) { w.client.Close() },
	} {
		for _, handler := range map[string]http.HandlerFunc{
			"parked":  statuses("503/30"),
			"silence": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, handler, setup{})
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { end(w, cancel) })
				_, _, err := w.doCtx(ctx, get("/a"))
				require.Equal(t, time.Second, time.Since(w.began), name)
				require.ErrorIs(t, err, cberr.RequestCanceled)
				if name == "caller" {
					require.ErrorIs(t, err, gone)
				} else {
					require.ErrorIs(t, err, retry.ErrClosed)
				}
				require.Equal(t, 1, w.count())
				cancel(nil)
			})
		}
	}
}

// TestPinnedEndpointMustExist: a node that is not one of the service's is the caller's mistake; without a map it is not
// known yet.
func TestPinnedEndpointMustExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := true
		w := newWorld(t, statuses("200"), setup{nodes: []string{"n1:80", "n2:80"}, options: func(o *httpx.Options) {
			all := o.Endpoints
			o.Endpoints = func(s topology.Service, b string) ([]string, bool) {
				if !known {
					return nil, false
				}
				return all(s, b)
			}
		}})
		for range 3 {
			r := get("/a")
			r.Endpoint = "n2:80"
			_, _, err := w.do(r)
			require.NoError(t, err)
		}
		require.NotContains(t, fmt.Sprint(w.requests()), "n1:80")
		r := get("/a")
		r.Endpoint = "n9:80"
		_, _, err := w.do(r)
		require.ErrorIs(t, err, cberr.InvalidArgument)
		known = false
		r.Timeout = time.Second
		_, _, err = w.do(r)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	})
}
