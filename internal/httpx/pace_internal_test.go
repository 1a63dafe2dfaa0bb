package httpx

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/pace"
)

// dialer awaits its turns to connect to hosts, and notes when each began.
type dialer struct {
	hosts hosts
	mu    sync.Mutex
	names []string
	at    []time.Duration
	began time.Time
	all   sync.WaitGroup
}

func (d *dialer) await(t *testing.T, ctx context.Context, name, addr string) {
	t.Helper()
	d.all.Go(func() {
		a := &attempt{ctx: ctx}
		if err := d.hosts.await(ctx, context.Background(), a, addr); err != nil {
			return
		}
		if a.turn.Load() != nil {
			t.Error(name, "says that it still waits")
		}
		d.mu.Lock()
		d.names, d.at = append(d.names, name), append(d.at, time.Since(d.began))
		d.mu.Unlock()
	})
}

// has says whether a host is remembered.
func (d *dialer) has(addr string) bool { return d.hosts.m[addr] != nil }

// fill makes the host at addr one that lets nothing begin for a second.
func (d *dialer) fill(t *testing.T, addr string) {
	t.Helper()
	d.hosts.lose(addr)
	for range pace.Connects {
		d.await(t, t.Context(), "first", addr)
	}
	synctest.Wait()
	d.names, d.at, d.began = nil, nil, time.Now()
}

// Dials begin in the order in which they come: one that comes when a place is free does not overtake those that wait.
func TestNoDialOvertakesAnother_D147(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			var d dialer
			d.fill(t, "a:1")
			var want []string
			for i := range 5 * pace.Connects { // some come in the moment in which others may begin
				name := fmt.Sprintf("%02d", i)
				want = append(want, name)
				time.AfterFunc(time.Duration(i)*time.Second/5, func() { d.await(t, t.Context(), name, "a:1") })
			}
			time.Sleep(10 * time.Second)
			d.all.Wait()
			at := map[string]time.Duration{}
			for i, name := range d.names {
				at[name] = d.at[i]
			}
			require.Len(t, at, len(want))
			for i := range want[1:] { // of those that begin in one instant any may be noted first
				require.LessOrEqual(t, at[want[i]], at[want[i+1]], "%v at %v", d.names, d.at)
			}
		})
	}
}

// A dial that comes later waits behind those that wait, also when a connection may begin.
func TestALaterDialWaitsForItsTurn_D147(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d dialer
		d.fill(t, "a:1")
		d.await(t, t.Context(), "waits", "a:1")
		synctest.Wait()
		h := d.hosts.m["a:1"]
		d.hosts.mu.Lock()
		h.starts = pace.Starts{} // as if a second were over
		d.hosts.mu.Unlock()
		d.await(t, t.Context(), "later", "a:1")
		synctest.Wait()
		d.mu.Lock()
		require.Empty(t, d.names)
		d.mu.Unlock()
		d.all.Wait()
		require.ElementsMatch(t, []string{"waits", "later"}, d.names)
	})
}

// A dial that gives up lets the next one have its turn, and good answers let all begin.
func TestDialsThatWaitGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d dialer
		d.fill(t, "a:1")
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 * pace.Connects {
			d.await(t, ctx, "gives up", "a:1")
		}
		synctest.Wait()
		d.await(t, t.Context(), "stays", "a:1")
		time.AfterFunc(time.Second/2, cancel)
		d.all.Wait()
		require.Equal(t, []string{"stays"}, d.names)
		require.Equal(t, []time.Duration{time.Second}, d.at)
		require.Zero(t, d.hosts.m["a:1"].waits)
		require.Empty(t, d.hosts.m["a:1"].turn)

		d.fill(t, "b:1")
		for range 100 {
			d.await(t, t.Context(), "many", "b:1")
		}
		time.AfterFunc(time.Second/2, func() { d.hosts.well("b:1") })
		d.all.Wait()
		require.Len(t, d.at, 100)
		require.Equal(t, time.Second/2, slices.Max(d.at))
		require.Zero(t, d.hosts.m["b:1"].waits)
	})
}

// What is remembered is bounded. Hosts that owe nothing are forgotten first, then those whose losses are the oldest,
// and none that a dial waits for.
func TestHostsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d dialer
		d.fill(t, "waited for")
		d.await(t, t.Context(), "waits", "waited for")
		synctest.Wait()
		for i := range mostHosts / 2 {
			h, _ := d.hosts.enter(fmt.Sprint("well ", i))
			require.Nil(t, h)
		}
		for i := range mostHosts {
			time.Sleep(time.Microsecond)
			d.hosts.lose(fmt.Sprint("lost ", i))
			require.LessOrEqual(t, len(d.hosts.m), mostHosts)
		}
		require.True(t, d.has("waited for"))
		require.False(t, d.has("well 0"))
		require.False(t, d.has("lost 0"))
		require.True(t, d.has("lost 1"))
		require.True(t, d.has(fmt.Sprint("lost ", mostHosts-1)))
		d.await(t, t.Context(), "next", "waited for")
		d.all.Wait()
		require.ElementsMatch(t, []string{"waits", "next"}, d.names)
		require.Equal(t, time.Second, d.at[0].Round(10*time.Millisecond), "its pace is kept")

		time.Sleep(forgetAfter)
		d.hosts.lose("new")
		require.Equal(t, 1, len(d.hosts.m))
	})
}

// The bound grows by what dials wait for, and shrinks again.
func TestHostsThatAreWaitedForStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d dialer
		ctx, cancel := context.WithCancel(t.Context())
		for i := range mostHosts + 10 {
			addr := fmt.Sprint("host ", i)
			d.fill(t, addr)
			d.await(t, ctx, addr, addr)
			synctest.Wait()
		}
		require.Equal(t, mostHosts+10, len(d.hosts.m))
		cancel()
		d.all.Wait()
		d.hosts.lose("new")
		require.Equal(t, mostHosts, len(d.hosts.m))
	})
}
