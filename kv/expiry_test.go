package kv_test

import (
	"encoding/binary"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// expiryOnTheWire is the number that the operation's request carries at the end of its extras.
func expiryOnTheWire(op subject) (uint32, error) {
	wire, err := op.encoded(common)
	if err != nil {
		return 0, err
	}
	var p memd.Packet
	if _, err = p.Parse(wire, 0); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(p.Extras[len(p.Extras)-4:]), nil
}

// expiring is every operation that has an expiry, with e.
func expiring(e kv.Expiry) []subject {
	key, initial := []byte("k"), uint64(1)
	return []subject{
		on("upsert", kv.Upsert{Key: key, Expiry: e}),
		on("insert", kv.Insert{Key: key, Expiry: e}),
		on("replace", kv.Replace{Key: key, Expiry: e}),
		on("touch", kv.Touch{Key: key, Expiry: e}),
		on("get-and-touch", kv.GetAndTouch{Key: key, Expiry: e}),
		on("increment", kv.Increment{Key: key, Initial: &initial, Expiry: e}),
		on("decrement", kv.Decrement{Key: key, Initial: &initial, Expiry: e}),
	}
}

func TestExpiryOnTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		time.Sleep(300 * time.Millisecond) // now is no whole second
		now := time.Now()
		unix := uint32(now.Unix())
		last := time.Unix(math.MaxUint32-1, 0)
		for _, c := range []struct {
			name   string
			expiry kv.Expiry
			want   uint32
		}{
			{"none", kv.Expiry{}, 0},
			{"no time, in another zone", kv.ExpireAt(time.Time{}.In(time.FixedZone("x", 3600))), 0},
			{"1 ns", kv.ExpireAfter(1), 1},
			{"1 s", kv.ExpireAfter(time.Second), 1},
			{"1 s and 1 ns", kv.ExpireAfter(time.Second + 1), 2},
			{"29 days", kv.ExpireAfter(29 * day), 29 * 86400},
			{"just below 30 days", kv.ExpireAfter(30*day - 1), 30 * 86400},
			{"30 days", kv.ExpireAfter(30 * day), unix + 30*86400 + 1},
			{"30 days and up to a whole second", kv.ExpireAfter(30*day + 700*time.Millisecond), unix + 30*86400 + 1},
			{"a year", kv.ExpireAfter(365 * day), unix + 365*86400 + 1},
			{"at", kv.ExpireAt(time.Unix(1900000000, 0)), 1900000000},
			{"at, between seconds", kv.ExpireAt(time.Unix(1900000000, 1)), 1900000001},
			{"at, long past", kv.ExpireAt(time.Unix(30*86400+1, 0)), 30*86400 + 1},
			{"at the last", kv.ExpireAt(last), math.MaxUint32 - 1},
		} {
			for _, op := range expiring(c.expiry) {
				got, err := expiryOnTheWire(op)
				require.NoError(t, err, "%s: %s", op.name, c.name)
				require.Equal(t, c.want, got, "%s: %s", op.name, c.name)
			}
		}
	})
}

func TestAnExpiryThatCannotBeIsRefused(t *testing.T) {
	for name, e := range map[string]kv.Expiry{
		"is negative":        kv.ExpireAfter(-1),
		" before 1970-01-31": kv.ExpireAt(time.Unix(0, 0)),
		"before 1970-01-31":  kv.ExpireAt(time.Unix(30*86400, 0)),
		"limit 4294967294":   kv.ExpireAt(time.Unix(math.MaxUint32, 0)),
		" limit 4294967294":  kv.ExpireAfter(math.MaxInt64),
	} {
		for _, op := range expiring(e) {
			f := newFake(nil)
			_, err := op.do(testContext(t), f)
			got := kvError(t, err)
			require.Equal(t, op.name, got.Op)
			require.ErrorIs(t, got, cberr.InvalidArgument)
			require.ErrorContains(t, got, name)
			var a *kv.ArgumentError
			require.ErrorAs(t, got, &a)
			require.Contains(t, a.Field, "expiry")
			require.Zero(t, f.dispatched.Load())
		}
	}
}

func TestPreserveExpiryExcludesAnExpiry(t *testing.T) {
	key, in := []byte("k"), kv.ExpireAfter(time.Minute)
	for _, op := range []subject{
		on("replace", kv.Replace{Key: key, Expiry: in, PreserveExpiry: true}),
	} {
		_, err := op.do(testContext(t), newFake(nil))
		require.ErrorIs(t, err, cberr.InvalidArgument)
		require.ErrorContains(t, err, op.name+": invalid argument, because: preserve expiry")
	}
}
