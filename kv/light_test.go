package kv_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// general is an operation whose simple form nobody knows.
type general[R any] struct{ kv.Op[R] }

// What a request does without is left out in the two operations that are most of all calls: whatever they are given, they
// are sent as every other operation is.
func TestALightRequestIsSentAsAnyOther(t *testing.T) {
	commons := []kv.Common{
		{},
		{Scope: "s", Collection: "c"},
		{Scope: "_default"},
		{Collection: "_default"},
		{Retry: retry.BestEffort{}},
		{OnBehalfOf: "jane"},
		{Timeout: time.Minute},
		{Timeout: -1},
		{CollectionID: 9},
		{Block: true},
	}
	key, value, into := []byte("k"), []byte("v"), make([]byte, 0, 8)
	for i, c := range commons {
		for j, g := range []kv.Get{
			{Key: key},
			{Key: key, Into: into},
			{Key: key, KeepCompressed: true},
			{},
			{Key: make([]byte, 251)},
			{Key: key, Hedge: &kv.Hedge{}},
			{Key: key, Paths: []string{"p"}},
			{Key: key, WithExpiry: true},
		} {
			g.Common = c
			t.Run(fmt.Sprintf("get %d %d", i, j), func(t *testing.T) { sentAlike[kv.GetResult](t, g) })
		}
		for j, u := range []kv.Upsert{
			{Key: key, Value: value},
			{Key: key},
			{Key: key, Value: value, CAS: 7},
			{Key: key, Value: value, Flags: 8},
			{Key: key, Value: value, Datatype: memd.DatatypeJSON},
			{Key: key, Value: value, Expiry: kv.ExpireAfter(time.Minute)},
			{Key: key, Value: value, Durability: memd.DurabilityMajority},
			{Key: key, Value: value, PreserveExpiry: true},
		} {
			u.Common = c
			t.Run(fmt.Sprintf("upsert %d %d", i, j), func(t *testing.T) { sentAlike[kv.MutationResult](t, u) })
		}
	}
}

func sentAlike[R any, O kv.Op[R]](t *testing.T, op O) {
	ours, ourErr := sent[R](t, op)
	theirs, theirErr := sent[R](t, general[R]{op})
	require.Equal(t, theirs, ours)
	require.Equal(t, whyOf(t, theirErr), whyOf(t, ourErr))
}

func whyOf(t *testing.T, err error) string {
	var e *kv.Error
	require.ErrorAs(t, err, &e)
	return fmt.Sprint(e.Op, e.Err, e.Cause)
}

// sent is what a dispatcher sees of an operation, and its request on connections with other features.
func sent[R any, O kv.Op[R]](t *testing.T, op O) (seen []any, err error) {
	d := newFake(func(c *kv.Call) {
		seen = append(seen, c.Req.Common, c.Req.Hedge, c.Req.ValueLen(), c.Req.InDefaultCollection(), c.Req.Restricted(), c.State.Strategy)
		for _, f := range []memd.Features{0, memd.Features(0).With(memd.FeatureCollections), allFeatures} {
			w := kv.Wire{Features: f, VBucket: 3, DurabilityMS: 5, Opaque: 6}
			c.Route.VBucket = 3
			b := make([]byte, c.BeginPlain(&w))
			if len(b) > 0 {
				c.Req.PutPlain(b, &w)
			}
			general, ended, err := c.AppendTo(nil, &w)
			require.False(t, ended)
			if len(b) > 0 {
				require.Equal(t, general, b)
			}
			seen = append(seen, general, err)
		}
		c.Fail(errSeen)
	})
	_, err = kv.Do[R](testContext(t), d, op)
	return seen, err
}
