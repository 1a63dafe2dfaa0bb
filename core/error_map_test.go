package core_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// CB-49, B4, B9: a status that only the node's error map knows is retried with our own backoff when the map says so,
// and described by it when not. D78: one that invalidates the connection replaces it, one that asks for a map has it
// fetched, and one of a rate limit is told to the strategy as such.
func TestErrorMapDecidesAboutUnknownStatuses_D78(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 64), mock.Virtual())
		m.SetErrorMap([]byte(`{"version":2,"revision":1,"errors":{
			"7ff0":{"name":"SLOW","desc":"come back","attrs":["retry-now"],"retry":{"strategy":"constant","interval":100000,"after":100000}},
			"7ff1":{"name":"FINAL","desc":"no more","attrs":["item-only"]},
			"7ff2":{"name":"BROKEN","desc":"bad state","attrs":["conn-state-invalidated"]},
			"7ff3":{"name":"MOVED","desc":"another map","attrs":["item-only","fetch-config"]},
			"7ff4":{"name":"LIMIT","desc":"too much","attrs":["retry-later","rate-limit"]}}}`))
		b := open(t, m).Bucket("default")
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		m.Inject(only(memd.OpTouch, 3), mock.Status(0x7ff0))
		began := time.Now()
		res, err := kv.Do(ctx(t), b, kv.Touch{Key: []byte("k")})
		require.NoError(t, err)
		require.Equal(t, 3, res.RetryInfo().Counted)
		require.True(t, res.RetryInfo().Reasons.Has(retry.KVErrorMapRetryIndicated))
		require.LessOrEqual(t, time.Since(began), 7*time.Millisecond) // 1, 2, 4 ms less the jitter
		m.Inject(only(memd.OpTouch, 1), mock.Status(0x7ff1))
		_, err = kv.Do(ctx(t), b, kv.Touch{Key: []byte("k")})
		var e *kv.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "FINAL", e.Name)
		require.ErrorContains(t, err, "no more")
		require.Zero(t, e.Retry.Counted)
		hellos := m.Frames(memd.OpHello)
		m.Inject(only(memd.OpTouch, 1), mock.Status(0x7ff2))
		_, err = kv.Do(ctx(t), b, kv.Touch{Key: []byte("k")})
		require.ErrorAs(t, err, &e)
		_, err = kv.Do(ctx(t), b, kv.Get{Key: []byte("k")})
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond) // the old connection is used until the new one is there
		require.Equal(t, hellos+1, m.Frames(memd.OpHello))
		for st, more := range map[memd.Status]int{0x7ff1: 0, 0x7ff3: 1} {
			time.Sleep(3 * time.Second) // long after, and long before, the next poll
			fetched := m.Frames(memd.OpGetClusterConfig)
			m.Inject(only(memd.OpTouch, 1), mock.Status(st))
			_, err = kv.Do(ctx(t), b, kv.Touch{Key: []byte("k")})
			require.ErrorAs(t, err, &e)
			time.Sleep(100 * time.Millisecond)
			require.Equal(t, fetched+more, m.Frames(memd.OpGetClusterConfig), "%v", st)
		}
		for st, kind := range map[memd.Status]retry.Kind{0x7ff0: retry.ServerSide, 0x7ff4: retry.Throttling} {
			m.Inject(only(memd.OpTouch, 1), mock.Status(st))
			var told []retry.Kind
			s := retry.Func(func(_ context.Context, r *retry.Request, _ retry.Reason) retry.Action {
				told = append(told, r.Kind)
				return retry.After(0)
			})
			_, err = kv.Do(ctx(t), b, kv.Touch{Key: []byte("k"), Common: kv.Common{Retry: s}})
			require.NoError(t, err)
			require.Equal(t, []retry.Kind{kind}, told)
		}
		m.Inject(only(memd.OpTouch, 1), mock.Status(0x7fff)) // a status that no table has
		_, err = kv.Do(ctx(t), b, kv.Touch{Key: []byte("k")})
		require.ErrorContains(t, err, "0x7fff")
	})
}

// An answer that ends its connection is that of one call: the others on the connection have lost it, and know no
// answer.
func TestAnAnswerThatEndsItsConnectionIsOneCallsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		m.SetErrorMap([]byte(`{"version":2,"revision":1,"errors":{"7ff2":{"name":"BROKEN","desc":"d","attrs":["conn-state-invalidated"]}}}`))
		b := open(t, m).Bucket("default")
		for range 20 {
			require.NoError(t, b.WaitReady(ctx(t)))
			held := m.Inject(only(memd.OpGet, 0), mock.Hold())
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: kv.Common{Retry: never}})
					var e *kv.Error
					if !errors.As(err, &e) || e.Answered || e.Ambiguous() || !strings.Contains(err.Error(),
						"0x7ff2 BROKEN") {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			m.Inject(only(memd.OpSet, 1), mock.ErrorBody(0x7ff2, []byte(`{"error":{"context":"what the server says"}}`)))
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: never}})
			require.ErrorContains(t, err, "what the server says")
			held.Remove()
			wg.Wait()
		}
	})
}

// A status that the map calls retryable left everything as it was: a write that met it to the end is not in doubt. One
// without an explanation may have been applied.
func TestErrorMapTellsWhetherAWriteIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		m.SetErrorMap([]byte(`{"version":2,"revision":1,"errors":{"7ff0":{"name":"SLOW","desc":"d","attrs":["retry-later"]}}}`))
		b := open(t, m).Bucket("default")
		m.Inject(only(memd.OpSet, 0), mock.Status(0x7ff0))
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Timeout: 100 * time.Millisecond}})
		var e *kv.Error
		require.ErrorAs(t, err, &e)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.False(t, e.Ambiguous())
		m.Inject(only(memd.OpAdd, 0), mock.Status(0x7ff9))
		_, err = kv.Do(ctx(t), b, kv.Insert{Key: []byte("k")})
		require.ErrorAs(t, err, &e)
		require.True(t, e.Ambiguous())
	})
}
