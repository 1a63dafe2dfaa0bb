package kv_test

import (
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// history answers GET_FAILOVER_LOG with *uuid after a while, and every other request at once.
func history(uuid *uint64, after time.Duration) *topo {
	return inLayout(threeCopies(), func(c *call.Call) {
		if c.Req.Opcode != memd.OpGetFailoverLog {
			give(c, &memd.Packet{Opcode: c.Req.Opcode, Extras: meta})
			return
		}
		c.Share()
		c.State.Sent()
		c.Watch()
		value := binary.BigEndian.AppendUint64(nil, *uuid)
		time.AfterFunc(after, func() {
			if c.State.Answered(c.State.Epoch()) {
				give(c, &memd.Packet{Opcode: c.Req.Opcode, Value: append(value, make([]byte, 8)...)})
			}
		})
	})
}

// K40: an operation for another history is not sent; what is known is asked for once.
func TestAnOperationForOneHistory_K40(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		uuid := uint64(7)
		d := history(&uuid, time.Second)
		var h kv.Histories
		op := kv.GetMeta{Key: []byte("k")}
		for range 3 {
			_, err := kv.DoInHistory(testContext(t), d, &h, 7, op)
			require.NoError(t, err)
		}
		require.EqualValues(t, 4, d.dispatched.Load())
		_, err := kv.DoInHistory(testContext(t), d, &h, 8, op)
		var he *kv.HistoryError
		require.ErrorAs(t, kvError(t, err), &he)
		require.Equal(t, kv.HistoryError{VBucket: 0, Want: 8, Have: 7}, *he)
		require.EqualValues(t, 4, d.dispatched.Load())
		uuid = 8
		_, err = kv.DoInHistory(testContext(t), d, &h, 8, op)
		require.NoError(t, err, "it is asked for again after a mismatch")
		_, err = kv.DoInHistory(testContext(t), d, &h, 8, kv.GetMeta{})
		require.ErrorIs(t, err, cberr.InvalidArgument)
	})
}

// D96: each waiter has its own context, and one question serves all of them, also when the first gives up.
func TestWaitingForAHistoryEndsWithTheCallersContext_D96(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		uuid := uint64(7)
		d := history(&uuid, 5*time.Second)
		var h kv.Histories
		first, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := make(chan error, 10)
		began := time.Now()
		go func() { _, err := h.Of(first, d, 0); done <- err }()
		synctest.Wait() // it is the one that asks
		for range 9 {
			go func() {
				uuid, err := h.Of(testContext(t), d, 0)
				if err == nil && uuid != 7 {
					err = errSeen
				}
				done <- err
			}()
		}
		require.ErrorIs(t, <-done, cberr.UnambiguousTimeout)
		require.Equal(t, time.Second, time.Since(began))
		for range 9 {
			require.NoError(t, <-done)
		}
		require.EqualValues(t, 1, d.dispatched.Load())
	})
}

func TestAHistoryThatIsNotGiven(t *testing.T) {
	var h kv.Histories
	for range 2 {
		_, err := h.Of(testContext(t), refusing(memd.StatusNotSupported, 0, ""), 3)
		require.ErrorIs(t, err, cberr.UnsupportedOperation, "a failure is not remembered")
	}
	_, err := h.Of(testContext(t), answering(memd.Packet{}), 3)
	require.ErrorIs(t, err, cberr.DecodingFailure)
}
