package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
)

// A read with little time does not wait for its look at the clock, and one that no connection takes has its own.
func TestAReadBeginsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Router{o: Options{Base: time.Now()}}
		time.Sleep(time.Minute)
		for limit, begun := range map[time.Duration]bool{time.Millisecond: true, exactBelow - 1: true, exactBelow: false, time.Hour: false} {
			r.o.Timeout = limit
			rd := &kv.Reads{}
			r.mayBegin(rd)
			require.Equal(t, begun, rd.Begun(), limit)
			r.AdmitRead(kv.NewCall(), rd)
			require.EqualValues(t, time.Minute, rd.Started)
			require.EqualValues(t, time.Minute+limit, rd.Deadline)
			time.Sleep(time.Second)
			r.AdmitRead(kv.NewCall(), rd)
			require.EqualValues(t, time.Minute, rd.Started, "once")
			r.o.Base = r.o.Base.Add(time.Second)
		}
	})
}
