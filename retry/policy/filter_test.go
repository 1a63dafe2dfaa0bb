package policy_test

import (
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// TestPushback proves GA6-27: exactly the server's delay, and no retry when it asks for none.
func TestPushback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCall(policy.Pushback{Base: schedule(1, 2, 3)}, script(
			answer{why: retry.KVTemporaryFailure, hint: retry.Hint{Pushback: retry.PushbackAfter(77 * ms)}},
			answer{why: retry.KVTemporaryFailure, hint: retry.Hint{Pushback: retry.PushbackAfter(0)}},
			answer{ok: true},
		)).play()
		require.Equal(t, inMS(0, 77, 77+10), c.at, "at once is for the first retry")
		require.NoError(t, c.err)
		c = run(policy.Pushback{}, retry.KVTemporaryFailure, retry.Hint{Pushback: retry.PushbackNever()})
		require.Zero(t, c.end)
		c.ended(t, errCause)
	})
	require.False(t, retries(policy.Pushback{}, retry.Request{Pushback: retry.PushbackAfter(ms)}, retry.Unknown),
		"what Base does not retry stays so")
}

// TestParsePushback proves GA6-27's form: milliseconds of 32 bits; negative or unparseable is do-not-retry.
func TestParsePushback(t *testing.T) {
	for text, want := range map[string]retry.Pushback{
		"0":          retry.PushbackAfter(0),
		"77":         retry.PushbackAfter(77 * ms),
		"2147483647": retry.PushbackAfter(2147483647 * ms),
	} {
		require.Equal(t, want, retry.ParsePushback(text), text)
	}
	for _, text := range []string{
		"-1", "-0", "", " 7", "07", "00", "+7", "7.5", "7ms", "2147483648", "0x7", "nonsense",
		"1_0",
	} {
		require.True(t, retry.ParsePushback(text).Never(), "%q", text)
	}
}

// TestPushbackDoesNotExtendTheLimit proves GA6-28: a server that asks to be tried again does not get more attempts.
func TestPushbackDoesNotExtendTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := policy.Limit{MaxAttempts: 4, Base: policy.Pushback{Base: schedule(1, 2, 3)}}
		c := run(s, retry.KVTemporaryFailure, retry.Hint{Pushback: retry.PushbackAfter(77 * ms)})
		require.Equal(t, inMS(0, 77, 154, 231), c.at)
		require.Equal(t, 231*ms, c.end)
		c.ended(t, retry.ErrExhausted, errCause)
	})
}

// TestBackoffRestartsAfterPushback proves GA6-29: the fourth delay, after the third that the server named, is the
// initial one again.
func TestBackoffRestartsAfterPushback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		withoutHint := answer{why: retry.KVTemporaryFailure}
		pushed := answer{why: retry.KVTemporaryFailure, hint: retry.Hint{Pushback: retry.PushbackAfter(500 * ms)}}
		s := policy.Pushback{Base: retry.BestEffort{Backoff: retry.Exponential(10*ms, 10000*ms, 2)}}
		c := newCall(s, script(withoutHint, withoutHint, pushed, withoutHint, withoutHint, answer{ok: true})).play()
		require.Equal(t, inMS(0, 10, 10+20, 30+500, 530+10, 540+20), c.at)
	})
}

// TestOnly proves GA6-5.
func TestOnly(t *testing.T) {
	s := policy.Only{Base: schedule(5), Reasons: retry.Reasons(0).With(retry.KVLocked), Codes: []uint32{429}}
	for _, c := range []struct {
		why  retry.Reason
		code uint32
		want bool
	}{
		{retry.KVLocked, 0, true},
		{retry.KVLocked, 9, true},
		{retry.KVTemporaryFailure, 0, false},
		{retry.ServiceResponseCodeIndicated, 429, true},
		{retry.ServiceResponseCodeIndicated, 503, false},
		{retry.Unknown, 429, false},
	} {
		require.Equal(t, c.want, retries(s, retry.Request{Code: c.code}, c.why), "%+v", c)
	}
	require.False(t, retries(policy.Only{}, retry.Request{}, retry.KVLocked), "an empty one retries nothing")
	require.False(t, retries(policy.Only{Codes: []uint32{0}}, retry.Request{}, retry.KVLocked), "0 is no code")
}

// TestConfiguredReasonsDoNotMakeAWriteSafe proves GA6-6: a policy that lists a reason which leaves the outcome open
// does not get a write sent twice, while a read is.
func TestConfiguredReasonsDoNotMakeAWriteSafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		everything := retry.Reasons(0)
		for why := range retry.All() {
			everything = everything.With(why)
		}
		s := policy.Only{Reasons: everything, Base: policy.Limit{MaxAttempts: 3, Base: schedule(10)}}
		for _, why := range []retry.Reason{retry.SocketClosedWhileInFlight, retry.Unknown} {
			write := newCall(s, always(why, retry.Hint{}))
			write.st.Idempotent = false
			require.Equal(t, inMS(0), write.play().at, "%v", why)
			write.ended(t, errCause)
		}
		for _, idempotent := range []bool{false, true} {
			c := newCall(s, script(answer{lost: true}))
			c.st.Idempotent = idempotent
			c.play()
			c.ended(t, io.EOF)
			require.Equal(t, !idempotent, c.inDoubt)
			require.Len(t, c.at, map[bool]int{false: 1, true: 4}[idempotent], "the first loss is transparent")
		}
	})
}
