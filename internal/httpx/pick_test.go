package httpx

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/topology"
)

// TestWishesAboutNodes: in turn; not where this request has failed, rather than not where another has just failed,
// rather than not where new requests are kept from; and somewhere in any case.
func TestWishesAboutNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := []string{"a", "b", "c", "d"}
		c := New(Options{
			JitterSource: func() float64 { return 0 }, Endpoints: func(topology.Service, string) ([]string,
				bool,
			) {
				return nodes, true
			},
		})
		defer c.Close()
		k := &call{c: c, r: &httpsvc.Request{Path: "/x"}, avoid: map[string]bool{}}
		picked := func() map[string]int {
			got := map[string]int{}
			for range 12 {
				k.turn++
				got[c.pick(k).addr]++
			}
			return got
		}
		require.Equal(t, map[string]int{"a": 3, "b": 3, "c": 3, "d": 3}, picked())
		k.avoid["a"] = true
		require.Zero(t, picked()["a"])
		c.sick.add("b", time.Now())
		got := picked()
		require.Len(t, got, 2)
		c.gate.refused(&lead{}, "c", "/x", time.Now().Add(time.Minute))
		require.Equal(t, map[string]int{"d": 12}, picked())
		nodes = []string{"a", "b", "c"}
		require.Equal(t, map[string]int{"c": 12}, picked())
		require.Equal(t, time.Now().Add(time.Minute+grace), c.pick(k).bar.until)
		nodes = []string{"a", "b"}
		require.Equal(t, map[string]int{"b": 12}, picked())
		nodes = []string{"a"}
		require.Equal(t, map[string]int{"a": 12}, picked())
		nodes = []string{"b", "d"}
		time.Sleep(2 * time.Second)
		require.Len(t, picked(), 2)
		c.sick.add("b", time.Now())
		c.sick.well("b")
		require.Len(t, picked(), 2)
		require.False(t, c.sick.any.Load())
	})
}
