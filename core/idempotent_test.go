package core_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// D70, D71, CB-3: a read whose connection is lost is sent again, whichever it is; a write is not, and is in doubt.
func TestALostReadIsSentAgain_D70_D71_CB3(t *testing.T) {
	key := []byte("k")
	type run func(t *testing.T, b *core.Bucket) error
	do := map[memd.Opcode]run{
		memd.OpGet: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b,
				kv.Get{Key: key})
			return err
		},
		memd.OpGetReplica: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b, kv.GetReplica{Key: key, Replica: 1})
			return err
		},
		memd.OpGetMeta: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b,
				kv.GetMeta{Key: key})
			return err
		},
		memd.OpSubdocMultiLookup: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b, kv.LookupIn{Key: key, Specs: []kv.LookupSpec{kv.GetPath("a")}})
			return err
		},
		memd.OpGetRandomKey: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b,
				kv.GetRandom{})
			return err
		},
		memd.OpObserve: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b,
				kv.Observe{Key: key})
			return err
		},
		memd.OpObserveSeqno: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b,
				kv.ObserveSeqno{})
			return err
		},
		memd.OpStat: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b,
				kv.Stat{})
			return err
		},
		memd.OpNoop: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b,
				kv.Noop{})
			return err
		},
		memd.OpCollectionsGetManifest: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b,
				kv.GetManifest{})
			return err
		},
		memd.OpCollectionsGetID: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b, kv.GetCollectionID{Path: "s.c"})
			return err
		},
		memd.OpGetClusterConfig: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b, kv.GetClusterConfig{})
			return err
		},
	}
	for op, f := range do {
		t.Run(call.SpecOf(op).Name, func(t *testing.T) {
			virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
				_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Value: []byte(`{"a":1}`)})
				require.NoError(t, err)
				in := m.Inject(only(op, 1), mock.CloseBefore())
				before := m.Frames(op)
				err = f(t, b) // what the node says the second time is another matter
				require.NotErrorIs(t, err, cberr.RequestCanceled)
				require.NotErrorIs(t, err, cberr.Timeout)
				require.Equal(t, 1, in.Fired())
				require.GreaterOrEqual(t, m.Frames(op)-before, 2)
			})
		})
	}
	writes := map[memd.Opcode]run{
		memd.OpSet: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b,
				kv.Upsert{Key: key})
			return err
		},
		memd.OpAdd: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b,
				kv.Insert{Key: key})
			return err
		},
		memd.OpDelete: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b,
				kv.Remove{Key: key})
			return err
		},
		memd.OpIncrement: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b, kv.Increment{Key: key, Delta: 1})
			return err
		},
		memd.OpGAT: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b, kv.GetAndTouch{Key: key})
			return err
		},
		memd.OpGetLocked: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b, kv.GetAndLock{Key: key})
			return err
		},
		memd.OpSubdocMultiMutation: func(t *testing.T, b *core.Bucket) error {
			_, err := kv.Do(ctx(t), b, kv.MutateIn{Key: key, Specs: []kv.MutateSpec{kv.UpsertPath("a", []byte("1"))}})
			return err
		},
	}
	for op, f := range writes {
		t.Run(call.SpecOf(op).Name, func(t *testing.T) {
			virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
				in := m.Inject(only(op, 0), mock.CloseBefore())
				err := f(t, b)
				require.ErrorIs(t, err, cberr.RequestCanceled)
				var e *kv.Error
				require.True(t, errors.As(err, &e) && e.Ambiguous())
				require.Equal(t, 1, in.Fired())
			})
		})
	}
}
