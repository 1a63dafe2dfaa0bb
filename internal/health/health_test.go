package health

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/retry"
)

func failure(kind *cberr.Kind, addr string) *handshake.Error {
	return &handshake.Error{Addr: addr, Step: handshake.StepAuth, Kind: kind}
}

// What explains a call: conditions of its own node, those of its bucket when nothing of that works, those of the
// cluster when nothing works at all.
func TestWhatAConditionExplains(t *testing.T) {
	var h Record
	a, b, c := h.Track("one", "a:1"), h.Track("one", "b:1"), h.Track("two", "c:1")
	why := func(bucket, node string) retry.Reason {
		r, err := h.Refine(retry.SocketNotAvailable, bucket, node)
		require.Equal(t, r == retry.SocketNotAvailable, err == nil)
		require.Equal(t, err, h.Condition(bucket, node))
		return r
	}
	require.Equal(t, retry.SocketNotAvailable, why("one", "a:1"))
	a.Failed(failure(cberr.TLSFailure, "a:1"))
	for _, bucket := range []string{"one", "two", AnyService} {
		require.Equal(t, retry.TLSError, why(bucket, ""), bucket)
	}
	c.Up() // the cluster works, bucket one does not
	require.Equal(t, retry.TLSError, why("one", ""))
	require.Equal(t, retry.TLSError, why("two", "a:1"), "its own node")
	require.Equal(t, retry.SocketNotAvailable, why("two", "b:1"))
	require.Equal(t, retry.SocketNotAvailable, why(AnyService, ""))
	b.Up()
	require.Equal(t, retry.TLSError, why("one", "a:1"))
	require.Equal(t, retry.SocketNotAvailable, why("one", "b:1"))
	require.Equal(t, retry.SocketNotAvailable, why("one", ""))
	require.ErrorIs(t, h.Known("two", errors.New("x")), cberr.TLSFailure, "known, though it explains nothing")
	b.Down()
	b.Failed(failure(cberr.AuthenticationFailure, "b:1"))
	require.Equal(t, retry.AuthenticationError, why("one", ""), "the RFC's order")
	require.ErrorIs(t, h.Condition("one", ""), cberr.TLSFailure)
	b.Leave()
	b.Failed(failure(cberr.AuthenticationFailure, "b:1"))
	b.Up()
	require.Equal(t, retry.TLSError, why("one", ""), "it has left")
}

func TestWhatClearsACondition(t *testing.T) {
	var h Record
	set := 0
	h.OnSet = func() { set++ }
	a, again, b := h.Track("one", "a:1"), h.Track("two", "a:1"), h.Track("one", "b:1")
	for _, kind := range []*cberr.Kind{cberr.TLSFailure, cberr.AuthenticationFailure, cberr.BucketAccess} {
		a.Failed(failure(kind, "a:1"))
		a.Failed(failure(kind, "a:1"))
	}
	require.Equal(t, 3, set, "once for each")
	b.Passed(handshake.StepTLS)
	b.Passed(handshake.StepAuth)
	again.Passed(handshake.StepSelectBucket)
	require.Len(t, listOf(h.Condition("one", "")), 3)
	again.Passed(handshake.StepTLS)
	require.NotErrorIs(t, h.Condition("one", ""), cberr.TLSFailure)
	again.Passed(handshake.StepAuth)
	require.Equal(t, failure(cberr.BucketAccess, "a:1"), h.Condition("one", ""))
	require.NoError(t, h.Condition("two", ""))
	b.Passed(handshake.StepSelectBucket)
	require.NoError(t, h.Condition("one", ""))
	require.Empty(t, h.sick)

	a.Failed(failure(cberr.AuthenticationFailure, "a:1"))
	h.NewCredentials(7)
	a.Failed(failure(cberr.AuthenticationFailure, "a:1"))
	require.NoError(t, h.Condition("one", ""), "of older credentials")
	now := failure(cberr.AuthenticationFailure, "a:1")
	now.Generation = 7
	a.Failed(now)
	require.Equal(t, now, h.Condition("one", ""))
}

// Only what was met before a server has seen the request is refined, and only by conditions.
func TestWhatIsRefined(t *testing.T) {
	var h Record
	tr := h.Track("b", "a:1")
	tr.Failed(errors.New("no route"))
	tr.Failed(&handshake.Error{Step: handshake.StepCredentials, Err: cberr.AuthenticationFailure})
	require.NoError(t, h.Condition("b", ""))
	tr.Failed(failure(cberr.AuthenticationFailure, "a:1"))
	for why := range retry.All() {
		better, _ := h.Refine(why, "b", "")
		if why.Unseen() && !why.AlwaysRetry() && !why.Terminal() {
			require.Equal(t, retry.AuthenticationError, better, why)
		} else {
			require.Equal(t, why, better)
		}
	}
}

func TestConditionsTellTheFirstOnes(t *testing.T) {
	var all Conditions
	for range 6 {
		all = append(all, cberr.TLSFailure)
	}
	text := cberr.TLSFailure.Error()
	require.Equal(t, text+"; "+text+"; "+text+"; "+text+"; and 2 more", all.Error())
	require.ErrorIs(t, all, cberr.TLSFailure)
	var h Record
	h.Track("b", "a:1").Failed(failure(cberr.TLSFailure, "a:1"))
	require.Len(t, listOf(h.Known("b", failure(cberr.TLSFailure, "a:1"))), 1, "not said twice")
	require.Len(t, listOf(h.Known("b", failure(cberr.TLSFailure, "b:1"))), 2)
}
