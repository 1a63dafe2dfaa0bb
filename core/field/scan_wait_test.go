package field_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// A node holds up what follows a scan that waits for a mutation: its connection is not taken for one that has vanished.
func TestAScanThatWaitsKeepsItsConnection_D281(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Bucket("default", 16), mock.Virtual(), mock.Nodes(2))
		b := openMock(t, m)
		made := m.Count(mock.Match{Opcodes: []memd.Opcode{memd.OpHello}})
		r, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("scan1"), Value: []byte("v")})
		require.NoError(t, err)
		future := r.Token
		future.Seqno += 1000
		scan := kv.Scan{Range: kv.PrefixRange([]byte("scan")), ConsistentWith: []kv.MutationToken{future}}
		ctx, began := within(t, time.Minute), time.Now()
		s, err := scan.Run(ctx, b)
		require.NoError(t, err)
		for s.Next(ctx) {
		}
		require.ErrorIs(t, s.Err(), cberr.AmbiguousTimeout)
		require.Equal(t, 10*time.Second, time.Since(began))
		s.Close()
		require.Zero(t, made.Fired(), "another connection was made")
		_, err = kv.Do(fresh(t), b, kv.Get{Key: []byte("scan1")})
		require.NoError(t, err)
	})
}
