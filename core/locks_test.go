package core_test

import (
	"context"
	"regexp"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
)

// Callers of a client wait for one lock while nothing fails, their connection's: no caller waits for a lock of the
// router, of the retries, of a pool or of the cluster.
func TestOnlyConnectionsWaitForALock(t *testing.T) {
	c, err := core.Open(t.Context(), core.Config{Seeds: core.SeedConfig{Hosts: []string{cannedNode(t)}}})
	require.NoError(t, err)
	defer c.Close()
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(ctx(t)))
	old := runtime.SetMutexProfileFraction(1)
	defer runtime.SetMutexProfileFraction(old)
	before := lockWaits(t)
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for range 1000 {
				_, err := kv.Do(context.Background(), b, kv.Get{Key: []byte("airline_10")})
				if err == nil {
					_, err = kv.Do(context.Background(), b, kv.Upsert{
						Key:   []byte("airline_10"),
						Value: make([]byte, 256),
					})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	for function, n := range lockWaits(t) {
		require.Equal(t, before[function], n, "waits for the lock of %s", function)
	}
}

// lockWaits says how often a goroutine has waited for a lock that a call of kv.Do held, by the function that let it go,
// of all that are this module's but for internal/conn. Goroutines of the client also meet each other at locks, such as
// those that wait for a new map; a caller takes no part in that. The profile has locks of the runtime, too, such as
// those of channels.
func lockWaits(t *testing.T) map[string]int64 {
	t.Helper()
	n, _ := runtime.MutexProfile(nil)
	records := make([]runtime.BlockProfileRecord, n+100)
	n, complete := runtime.MutexProfile(records)
	require.True(t, complete)
	waits := map[string]int64{}
	for _, r := range records[:n] {
		holder := ""
		for frames, more := runtime.CallersFrames(r.Stack()), true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if holder == "" && !unlocks.MatchString(f.Function) { // below Unlock itself is what has called it
				holder = f.Function
			}
			if calls.MatchString(f.Function) && module.MatchString(holder) && !connections.MatchString(holder) {
				waits[holder] += r.Count
				break
			}
		}
	}
	return waits
}

var (
	unlocks     = regexp.MustCompile(`^(internal/)?sync\.\(\*(RW)?Mutex\)\.`)
	module      = regexp.MustCompile(`^github\.com/couchcore/couchcore/`)
	calls       = regexp.MustCompile(`^github\.com/couchcore/couchcore/kv\.Do\b`)
	connections = regexp.MustCompile(`/internal/conn\.`)
)
