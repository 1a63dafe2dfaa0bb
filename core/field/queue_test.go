package field_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/retry"
)

// Calls wait while a node takes its time for the first handshake. The places of those that have timed out are free for
// others.
func TestCallsThatHaveEndedTakeNoPlace_D161(t *testing.T) {
	s := scripted.New(t, 2)
	goesOn := make(chan struct{})
	release := sync.OnceFunc(func() { close(goesOn) })
	t.Cleanup(release)
	s.Nodes[1].SetHook(func(_ *scripted.Session, p *memd.Packet) bool {
		if p.Opcode == memd.OpHello {
			<-goesOn
		}
		return false
	})
	const places = 4
	b := open(t, s, func(cfg *core.Config) {
		cfg.Seeds.Hosts = cfg.Seeds.Hosts[:1]
		cfg.Limits.Queue = places
	}).Bucket("default")
	l, err := b.Layout(within(t, 5*time.Second))
	require.NoError(t, err)
	key := []byte("a")
	for ; l.NodeIndex(l.VBucket(key), 0) != 1; key[0]++ {
	}
	never := retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })
	get := func(limit time.Duration) kv.Future[kv.GetResult] {
		return kv.Start(context.Background(), b, kv.Get{Key: key, Common: kv.Common{Timeout: limit, Retry: never}})
	}
	var short []kv.Future[kv.GetResult]
	for range places {
		short = append(short, get(500*time.Millisecond))
	}
	_, err = get(time.Second).Wait(within(t, time.Second))
	require.ErrorIs(t, err, cberr.TemporaryFailure, "all places are taken")
	for _, f := range short {
		_, err = f.Wait(within(t, 5*time.Second))
		require.ErrorIs(t, err, cberr.Timeout)
	}
	long := get(5 * time.Second)
	release()
	_, err = long.Wait(within(t, 5*time.Second))
	require.ErrorIs(t, err, cberr.DocumentNotFound)
}
