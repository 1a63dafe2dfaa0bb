package promises_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/views"
)

// views of a bucket that the user may not open, beside a seed that never answers.
func viewWithoutAccess(t *testing.T, f func(t *testing.T, cl *core.Cluster, view func() error), s retry.Strategy) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		silence(m, 1)
		cl := client(t, m, func(cfg *core.Config) {
			cfg.Auth.Username, cfg.Auth.Password = "app", core.NewSecret("secret")
		})
		f(t, cl, func() error {
			_, err := cl.Bucket("default").View(within(t, 2*time.Second), &views.Request{
				Design: "d", View: "v", Retry: s,
			})
			return err
		})
	}, mock.User("app", "secret", "other"))
}

// A view goes by its bucket's map. While the bucket is refused and there is no map of it, nothing can send the request,
// and it fails with the condition as a key-value call does. Requests that need no bucket go on.
func TestAViewOfABucketWithoutAccessFailsAtOnceWithTheCondition(t *testing.T) {
	viewWithoutAccess(t, func(t *testing.T, cl *core.Cluster, view func() error) {
		for range 3 {
			var err error
			failsAtOnce(t, cberr.BucketAccess, atOnce, func(context.Context) error { err = view(); return err })
			require.True(t, reasons(t, err).Has(retry.BucketAccessError))
			require.ErrorContains(t, err, `SELECT_BUCKET "default" answered 0x24`)
			require.NoError(t, calls["query"](within(t, time.Second), cl))
			time.Sleep(5 * time.Second)
		}
	}, nil)
}

// A strategy that goes on behind a condition has a view wait for its bucket; when its time is over the error names the
// condition.
func TestAViewOfABucketWithoutAccessWaitsUnderBestEffort(t *testing.T) {
	viewWithoutAccess(t, func(t *testing.T, cl *core.Cluster, view func() error) {
		began := time.Now()
		err := view()
		require.Equal(t, 2*time.Second, time.Since(began))
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.ErrorIs(t, err, cberr.BucketAccess, "the condition that is known")
		require.ErrorContains(t, err, `SELECT_BUCKET "default" answered 0x24`)
	}, retry.BestEffort{})
}

// A bucket whose map comes over HTTP has a way for its views, whatever key-value connections have met.
func TestAViewGoesByAMapOverHTTPThoughKeyValueRefusesTheBucket(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSelectBucket}}, mock.Status(memd.StatusAccess))
		m.Script(mock.ServiceMatch{Service: mock.ViewsService}, mock.Answer{Body: []byte(`{"total_rows":0,"rows":[]}`)})
		cl := client(t, m)
		b := cl.Bucket("default")
		time.Sleep(5 * time.Second) // key-value goes on to bring no map, so that HTTP is asked
		require.NoError(t, drained(b.View(within(t, time.Second), &views.Request{Design: "d", View: "v"})))
	})
}
