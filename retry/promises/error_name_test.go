package promises_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// TestAnErrorNamesTheOperationThatWaitedForTheMap: what the program has asked for, and not the request that waited in
// its place. So does the log.
func TestAnErrorNamesTheOperationThatWaitedForTheMap(t *testing.T) {
	key := []byte("k")
	for name, run := range map[string]func(context.Context, *core.Bucket) error{
		"layout": func(ctx context.Context, b *core.Bucket) error {
			_, err := b.Layout(ctx)
			return err
		},
		"scan": func(ctx context.Context, b *core.Bucket) error {
			_, err := kv.Scan{}.Run(ctx, b)
			return err
		},
		"stat": func(ctx context.Context, b *core.Bucket) error {
			_, err := kv.StatAll(ctx, b, kv.Stat{})
			return err
		},
		"get-manifest": func(ctx context.Context, b *core.Bucket) error {
			_, err := kv.ManifestAll(ctx, b, kv.GetManifest{})
			return err
		},
		"get-any-replica": func(ctx context.Context, b *core.Bucket) error {
			_, err := kv.GetAnyReplica(ctx, b, kv.GetReplica{Key: key})
			return err
		},
		"lookup-in-any-replica": func(ctx context.Context, b *core.Bucket) error {
			op := kv.LookupIn{Key: key, Specs: []kv.LookupSpec{kv.GetPath("a")}}
			_, err := kv.LookupInAllReplicas(ctx, b, op)
			return err
		},
		"upsert": func(ctx context.Context, b *core.Bucket) error {
			_, err := kv.DoPolled(ctx, b, kv.Upsert{Key: key}, kv.PollDurability{PersistTo: 1})
			return err
		},
		"touch": func(ctx context.Context, b *core.Bucket) error {
			_, err := kv.DoInHistory(ctx, b, &kv.Histories{}, 1, kv.Touch{Key: key})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *mock.Cluster) {
				var told []string
				cl := client(t, m, wrongPassword, func(c *core.Config) { c.Observe.Retry = namesOf{&told} })
				err := run(within(t, 10*time.Second), cl.Bucket("default"))
				require.ErrorIs(t, err, cberr.AuthenticationFailure)
				require.True(t, strings.HasPrefix(err.Error(), name+": "), err.Error())
				require.NotContains(t, err.Error(), "noop")
				require.NotContains(t, told, "noop")
			})
			inBubble(t, func(t *testing.T, m *mock.Cluster) {
				silence(m, 0)
				silence(m, 1)
				err := run(within(t, time.Second), client(t, m).Bucket("default"))
				require.ErrorIs(t, err, cberr.Timeout)
				require.True(t, strings.HasPrefix(err.Error(), name+": "), err.Error())
			})
		})
	}
}

// namesOf is an observer that notes the names of operations.
type namesOf struct{ names *[]string }

func (o namesOf) Attempt(retry.AttemptInfo) {}

func (o namesOf) Retry(r *retry.Request, _ retry.Reason, _ time.Duration) {
	*o.names = append(*o.names, r.Operation)
}

func (o namesOf) GaveUp(r *retry.Request, _ retry.Reason, _ error) {
	*o.names = append(*o.names, r.Operation)
}
