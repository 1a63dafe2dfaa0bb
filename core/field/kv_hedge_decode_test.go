package field_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// What is told of a read is what its caller gets, also when the answer cannot be read, and in every form of the read:
// hedged, and where a hedged read has but one copy to read from.
func TestAReadWhoseAnswerCannotBeReadHasFailed_D237(t *testing.T) {
	get := kv.Get{Key: []byte("k"), Hedge: &kv.Hedge{MaxAttempts: 2, Delay: time.Second}}
	ways := map[string]func(ctx context.Context, b *core.Bucket) error{
		"Do":    func(ctx context.Context, b *core.Bucket) error { return second(kv.Do(ctx, b, get)) },
		"Start": func(ctx context.Context, b *core.Bucket) error { return second(kv.Start(ctx, b, get).Wait(ctx)) },
		"Go": func(ctx context.Context, b *core.Bucket) error {
			done := make(chan error, 1)
			kv.Go(ctx, b, get, func(_ kv.GetResult, err error) { done <- err })
			return <-done
		},
		"Batch": func(ctx context.Context, b *core.Bucket) error {
			return kv.Batch(ctx, b, []kv.Get{get}, 1)[0].Err
		},
	}
	for replicas := range 2 {
		for name, read := range ways {
			t.Run(fmt.Sprint(name, ", replicas ", replicas), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := mock.Start(t, mock.Nodes(2), mock.Replicas(replicas), mock.Bucket("default", 4),
						mock.Virtual())
					h := &hook{}
					b := openMock(t, m, func(cfg *core.Config) { cfg.Observe.Hook = h })
					require.NoError(t, upsert(t, b))
					h.take(t)
					m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Rewrite(func(_, rep *memd.Packet) {
						rep.Datatype, rep.Value = memd.DatatypeSnappy, []byte{0xff, 0xff, 0xff, 0xff, 0x07, 0}
					}))
					err := read(fresh(t), b)
					require.ErrorIs(t, err, cberr.DecodingFailure)
					synctest.Wait()
					_, told := h.take(t)
					require.Equal(t, err, told["get"].Err)
				})
			})
		}
	}
}
