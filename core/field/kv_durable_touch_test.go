package field_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
)

// Servers take the durability frame of TOUCH and GET_AND_TOUCH and answer 0x83 whatever its level is. The client says
// so itself.
func TestADurableTouchIsRefusedHere_D122(t *testing.T) {
	s := scripted.New(t, 1)
	b := ready(t, s)
	key := []byte("k")
	for level := memd.DurabilityMajority; level <= memd.DurabilityPersistToMajority; level++ {
		for name, do := range map[string]func() error{
			"touch": func() error {
				_, err := kv.Do(fresh(t), b, kv.Touch{Key: key, Expiry: kv.ExpireAfter(time.Minute), Durability: level})
				return err
			},
			"get-and-touch": func() error {
				_, err := kv.Do(fresh(t), b, kv.GetAndTouch{
					Key: key, Expiry: kv.ExpireAfter(time.Minute),
					Durability: level,
				})
				return err
			},
		} {
			err := do()
			require.ErrorIs(t, err, cberr.FeatureNotAvailable, name)
			var arg *kv.ArgumentError
			require.ErrorAs(t, err, &arg, name)
			require.Equal(t, "durability level", arg.Field)
			require.ErrorContains(t, err, "no server makes a "+name+" durable")
			var e *kv.Error
			require.ErrorAs(t, err, &e)
			require.False(t, e.Ambiguous())
		}
	}
	require.Zero(t, s.Nodes[0].Requests(memd.OpTouch)+s.Nodes[0].Requests(memd.OpGAT), "nothing was sent")
	_, err := kv.Do(fresh(t), b, kv.Touch{Key: key})
	require.NoError(t, err)
}
