package field_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
)

// refusing answers requests of an opcode with a status, the first times of them; always when times is 0.
func refusing(n *scripted.Node, op memd.Opcode, status memd.Status, times int32) {
	var seen atomic.Int32
	n.SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		if p.Opcode != op || times > 0 && seen.Add(1) > times {
			return false
		}
		s.Reply(p, status, nil, nil)
		return true
	})
}

// F9: a bucket was deleted and made again under a connection, which has none since. The write goes again over a new
// one.
func TestAConnectionWithoutABucketIsReplaced_D132(t *testing.T) {
	s := scripted.New(t, 1)
	b := ready(t, s)
	n := s.Nodes[0]
	before := n.Accepted()
	refusing(n, memd.OpSet, memd.StatusNoBucket, 1)
	require.NoError(t, upsert(t, b))
	require.Equal(t, 2, n.Requests(memd.OpSet))
	require.Equal(t, before+1, n.Accepted())
}

// What is in flight on such a connection gets its answers before it is closed: nothing is in doubt.
func TestWhatIsInFlightBesideARefusalIsAnswered_D132(t *testing.T) {
	s := scripted.New(t, 1)
	b := ready(t, s)
	held := make(chan func(), 1)
	s.Nodes[0].SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		switch {
		case p.Opcode == memd.OpAppend:
			held <- func() { s.Reply(p, 0, make([]byte, 16), nil) }
			return true
		case p.Opcode == memd.OpSet && s.Node.Requests(memd.OpSet) == 1:
			s.Reply(p, memd.StatusNoBucket, nil, nil)
			return true
		}
		return false
	})
	slow := kv.Start(fresh(t), b, kv.Append{Key: []byte("k"), Value: []byte("v")})
	answer := <-held
	fast := kv.Start(fresh(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
	require.Eventually(t, func() bool { return s.Nodes[0].Requests(memd.OpSet) > 0 }, 5*time.Second, time.Millisecond)
	answer()
	_, err := slow.Wait(fresh(t))
	require.NoError(t, err)
	_, err = fast.Wait(fresh(t))
	require.NoError(t, err)
}

// Every status that says that nothing was applied leaves no doubt, and no such write ends as an ambiguous failure.
func TestNotAppliedIsSaid_D132(t *testing.T) {
	s := scripted.New(t, 1)
	b := ready(t, s)
	for status, kind := range map[memd.Status]*cberr.Kind{
		memd.StatusCASValueInvalid:           cberr.InvalidArgument,
		memd.StatusRange:                     cberr.InvalidArgument,
		memd.StatusNotInitialized:            cberr.TemporaryFailure,
		memd.StatusExpiryOverflow:            cberr.InvalidArgument,
		memd.StatusLockExpiryOverflow:        cberr.InvalidArgument,
		memd.StatusBucketSizeLimitExceeded:   cberr.QuotaLimited,
		memd.StatusBucketResidentRatioTooLow: cberr.QuotaLimited,
		memd.StatusBucketDataSizeTooBig:      cberr.QuotaLimited,
		memd.StatusBucketDiskSpaceTooLow:     cberr.QuotaLimited,
		memd.StatusBucketPaused:              cberr.TemporaryFailure,
		memd.StatusCancelled:                 cberr.RequestCanceled,
		memd.StatusUnknownFrameInfo:          cberr.UnsupportedOperation,
	} {
		refusing(s.Nodes[0], memd.OpSet, status, 0)
		_, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k")})
		var e *kv.Error
		require.ErrorAs(t, err, &e)
		require.ErrorIs(t, err, kind, status)
		require.False(t, e.Ambiguous(), "%v: %v", status, err)
	}
	for _, status := range []memd.Status{
		memd.StatusInternal, memd.StatusSyncWriteAmbiguous, memd.StatusRangeScanMore,
		0x7ff0,
	} {
		refusing(s.Nodes[0], memd.OpSet, status, 0)
		_, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k")})
		var e *kv.Error
		require.ErrorAs(t, err, &e)
		require.True(t, e.Ambiguous(), "%v: %v", status, err)
	}
}

// The error map's retry hint is followed where nothing can have been applied: a hint on a status that says otherwise is
// not.
func TestTheErrorMapsRetryForWhatMayBeApplied_D132(t *testing.T) {
	s := scripted.New(t, 1)
	entry := func(code, attrs string) string {
		return fmt.Sprintf(`"%s":{"name":"X%s","desc":"d","attrs":[%s]}`, code, code, attrs)
	}
	s.ErrorMap = `{"version":2,"revision":1,"errors":{` + entry("84", `"retry-now"`) + "," + entry("a3", `"retry-now"`) + "," +
		entry("a6", `"retry-now"`) + "," + entry("51", `"item-only","retry-now"`) + "," + entry("7ff0", `"temp","retry-now"`) + "," +
		entry("7ff1", `"internal","retry-now"`) + "," + entry("7ff2", `"success","retry-now"`) + "," +
		entry("7ff3", `"special-handling","retry-now"`) + `}}`
	b := ready(t, s)
	for _, c := range []struct {
		status            memd.Status
		writes, reads, in bool // a write is sent again, a read is, a write is in doubt
	}{
		{memd.StatusInternal, false, false, true},
		{memd.StatusSyncWriteAmbiguous, false, false, true},
		{memd.StatusRangeScanMore, false, false, true},
		{memd.StatusCancelled, true, true, false},
		{0x7ff0, true, true, false},
		{0x7ff1, false, true, true},
		{0x7ff2, false, true, true},
		{0x7ff3, false, true, true},
	} {
		refusing(s.Nodes[0], memd.OpSet, c.status, 1)
		_, err := kv.Do(fresh(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
		require.Equal(t, c.writes, err == nil, "write, %v: %v", c.status, err)
		var e *kv.Error
		if errors.As(err, &e) {
			require.Equal(t, c.in, e.Ambiguous(), "%v: %v", c.status, err)
			require.Zero(t, e.Retry.Retries())
		}
		refusing(s.Nodes[0], memd.OpGet, c.status, 1)
		_, err = kv.Do(fresh(t), b, kv.Get{Key: []byte("k")})
		require.Equal(t, c.reads, err == nil, "read, %v: %v", c.status, err)
	}
}

// A node that never has the bucket is not connected to all the time.
func TestANodeThatHasNoBucketIsAskedAtAPace_D132(t *testing.T) {
	s := scripted.New(t, 1)
	b := ready(t, s)
	n := s.Nodes[0]
	before := n.Accepted()
	refusing(n, memd.OpSet, memd.StatusNoBucket, 0)
	err := upsert(t, b)
	require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	require.ErrorContains(t, err, "NO_BUCKET")
	require.Less(t, n.Accepted()-before, 25, "connections in 2 s")
}

// A status after which the error map does not rely on the connection has it replaced, at a pace, without harm to other
// calls.
func TestAConnectionNotToBeReliedOnIsReplacedAtAPace_D132(t *testing.T) {
	s := scripted.New(t, 1)
	s.ErrorMap = `{"version":2,"revision":1,"errors":{"84":{"name":"EINTERNAL","desc":"d","attrs":["internal","conn-state-invalidated"]}}}`
	b := ready(t, s)
	n := s.Nodes[0]
	before := n.Accepted()
	refusing(n, memd.OpGet, memd.StatusInternal, 0)
	for began := time.Now(); time.Since(began) < 1500*time.Millisecond; {
		_, err := kv.Do(fresh(t), b, kv.Get{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.InternalServerFailure)
		require.NoError(t, upsert(t, b))
	}
	require.NotEqual(t, before, n.Accepted())
	require.Less(t, n.Accepted()-before, 5)
}
