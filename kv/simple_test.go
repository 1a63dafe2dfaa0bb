package kv_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// The short way to write a request that is Simple gives the same bytes as the long one, whatever the operation; a
// request that is not Simple has only the long one.
func TestASimpleRequestOnTheWire(t *testing.T) {
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
	key, value := []byte("k"), []byte("v")
	for i, c := range commons {
		simple := (c.Scope == "" || c.Scope == "_default") && (c.Collection == "" || c.Collection == "_default") &&
			c.OnBehalfOf == "" && c.Timeout >= 0 && c.CollectionID == 0
		for _, op := range []struct {
			name   string
			simple bool
			do     func(d kv.Dispatcher) error
		}{
			{"get", true, doing(kv.Get{Common: c, Key: key})},
			{"compressed", true, doing(kv.Get{Common: c, Key: key, KeepCompressed: true})},
			{"no key", false, doing(kv.Get{Common: c})},
			{"long key", false, doing(kv.Get{Common: c, Key: make([]byte, 251)})},
			{"expiry", false, doing(kv.Get{Common: c, Key: key, WithExpiry: true})},
			{"replica", false, doing(kv.GetReplica{Common: c, Key: key, Replica: 1})},
			{"upsert", true, doing(kv.Upsert{Common: c, Key: key, Value: value})},
			{"version", true, doing(kv.Upsert{
				Common: c, Key: key, Value: value, CAS: 7, Flags: 8,
				Datatype: memd.DatatypeJSON,
			})},
			{"durable", false, doing(kv.Upsert{
				Common: c, Key: key, Value: value,
				Durability: memd.DurabilityMajority,
			})},
			{"preserving", false, doing(kv.Upsert{Common: c, Key: key, Value: value, PreserveExpiry: true})},
			{"append", true, doing(kv.Append{Common: c, Key: key, Value: value})},
			{"touch", true, doing(kv.Touch{Common: c, Key: key, Expiry: kv.ExpireAfter(time.Minute)})},
			{"remove", true, doing(kv.Remove{Common: c, Key: key, CAS: 9})},
			{"observe", false, doing(kv.Observe{Common: c, Key: key})},
			{"noop", false, doing(kv.Noop{Common: c})},
		} {
			t.Run(fmt.Sprint(op.name, i), func(t *testing.T) {
				d := newFake(func(c *call.Call) {
					require.Equal(t, simple && op.simple, c.Req.Simple())
					for _, f := range []memd.Features{0, memd.Features(0).With(memd.FeatureCollections), allFeatures} {
						w := call.Wire{Features: f, VBucket: 3, DurabilityMS: 5, Opaque: 6}
						c.Route.VBucket = 3
						b := make([]byte, c.BeginSimple(&w))
						require.Equal(t, c.Req.Simple(), len(b) > 0)
						long, ended, err := c.AppendTo(nil, &w)
						require.False(t, ended)
						if len(b) > 0 {
							require.NoError(t, err)
							c.Req.PutSimple(b, &w)
							require.Equal(t, long, b)
						}
					}
					c.Fail(errSeen)
				})
				require.Error(t, op.do(d))
			})
		}
	}
}

func doing[R any, O kv.Op[R]](op O) func(d kv.Dispatcher) error {
	return func(d kv.Dispatcher) error {
		_, err := kv.Do[R](context.Background(), d, op)
		return err
	}
}
