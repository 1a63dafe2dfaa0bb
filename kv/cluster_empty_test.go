package kv_test

import (
	"regexp"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

var vbucketMap = regexp.MustCompile(`"vBucketMap":\[\[.*?\]\]`)

// D12: a bucket that was just created has a map without vbuckets for a while. Nothing fails for that, and nothing says
// that there is no data: what asks for it meanwhile waits.
func TestABucketWhoseMapIsStillEmpty_D12(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Replicas(1), mock.Bucket("default", 16), mock.Virtual())
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = "Administrator", core.NewSecret("password"), m.Dial
		full, err := core.Open(t.Context(), cfg)
		require.NoError(t, err)
		insert(t, full.Bucket("default"), kv.Common{}, "k", "1")
		require.NoError(t, full.Close())

		in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGetClusterConfig}},
			mock.Rewrite(func(_, rep *memd.Packet) {
				rep.Value = vbucketMap.ReplaceAll(rep.Value, []byte(`"vBucketMap":[]`))
			}))
		c, err := core.Open(t.Context(), cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		b := c.Bucket("default")
		began := time.Now()
		time.AfterFunc(700*time.Millisecond, func() {
			in.Remove()
			_ = m.MoveVBucket("default", 3, 2) // a newer map
		})
		ends := make(chan error, 5)
		var keys atomic.Int32
		for _, run := range []func() error{
			func() error { return discard(kv.Do(testContext(t), b, kv.Get{Key: []byte("k")})) },
			func() error { return discard(kv.Do(testContext(t), b, kv.GetFailoverLog{VBucket: 15})) },
			func() error { return discard(kv.GetAnyReplica(testContext(t), b, kv.GetReplica{Key: []byte("k")})) },
			func() error {
				run, err := kv.Scan{}.Run(testContext(t), b)
				if err != nil {
					return err
				}
				for run.Next(testContext(t)) {
					keys.Add(1)
				}
				return run.Err()
			},
			func() error {
				return discard(kv.DoPolled(testContext(t), b, kv.Upsert{Key: []byte("other")},
					kv.PollDurability{ReplicateTo: 1}))
			},
		} {
			go func() { ends <- run() }()
		}
		for range 5 {
			require.NoError(t, <-ends)
		}
		require.Positive(t, keys.Load(), "the document is found")
		require.GreaterOrEqual(t, time.Since(began), 700*time.Millisecond)
		require.Less(t, time.Since(began), 2500*time.Millisecond)
	})
}
