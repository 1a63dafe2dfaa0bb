package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// open connects a client to the mock. It is closed with the test.
func open(t *testing.T, m *mock.Cluster, change ...func(*core.Config)) *core.Cluster {
	t.Helper()
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = "Administrator", core.NewSecret("password"), m.Dial
	cfg.Maps.NoNotifications = true // most tests are about what happens until a map is known
	for _, f := range change {
		f(&cfg)
	}
	c, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func ctx(t *testing.T) context.Context {
	t.Helper()
	c, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return c
}

func roundTrip(t *testing.T, m *mock.Cluster) {
	c := open(t, m)
	b := c.Bucket("default")
	w, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte(`{"a":1}`), Datatype: memd.DatatypeJSON})
	require.NoError(t, err)
	require.NotZero(t, w.CAS)
	require.False(t, w.Token.IsZero())
	r, err := kv.Do(ctx(t), b, &kv.Get{Key: []byte("k")})
	require.NoError(t, err)
	require.Equal(t, `{"a":1}`, string(r.Value))
	require.Equal(t, w.CAS, r.CAS)
	_, err = kv.Do(ctx(t), b, kv.Get{Key: []byte("absent")})
	require.ErrorIs(t, err, cberr.DocumentNotFound)
	require.NoError(t, b.WaitReady(ctx(t)))
}

func TestRoundTripOverTCP(t *testing.T) {
	roundTrip(t, mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64)))
}

func TestRoundTripOverTheVirtualNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roundTrip(t, mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual()))
	})
}

func TestGetRetriesTemporaryFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual())
		b := open(t, m).Bucket("default")
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("1")})
		require.NoError(t, err)
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 2}, mock.Status(memd.StatusTmpFail))
		res, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k")})
		require.NoError(t, err)
		require.Equal(t, 2, res.RetryInfo().Counted)
		require.True(t, res.RetryInfo().Reasons.Has(retry.KVTemporaryFailure))
	})
}
