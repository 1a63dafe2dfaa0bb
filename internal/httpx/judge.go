package httpx

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// judgement is what becomes of an answer.
type judgement struct {
	give bool // to the caller
	why  retry.Reason
	err  error
	hint retry.Hint
}

// judgeIn reads what the verdict needs of an answer whose status tells of a failure, and does not wait long for a text
// that does not come: the status says enough. Then it judges.
func (k *call) judgeIn(a *httpsvc.Response, b *body) (judgement, error) {
	var text []byte
	if (a.Status < 200 || a.Status > 299) && (k.r.Judge != nil || comesBack(a.Status)) {
		t := time.AfterFunc(textTime, b.cancel)
		text, _ = io.ReadAll(io.LimitReader(b.rc, httpsvc.TextLimit)) // what is lost of it does not change the status
		t.Stop()
		b.rc = replayed{io.MultiReader(bytes.NewReader(text), b.rc), b.rc}
	}
	return k.judge(a, text)
}

// replayed is a body whose beginning was read already.
type replayed struct {
	io.Reader
	io.Closer
}

// judge reads the service's own list, and then the general rules. text is what was read of the answer. An error says
// that the answer was lost.
func (k *call) judge(a *httpsvc.Response, text []byte) (judgement, error) {
	push := pushback(a.Header, time.Now())
	_, told := push.After()
	hint := retry.Hint{Code: uint32(a.Status), Pushback: push}
	v := httpsvc.Verdict{General: true}
	if k.r.Judge != nil {
		var err error
		if v, err = k.r.Judge(a); err != nil {
			return judgement{}, err
		}
		if v.Code != 0 {
			hint.Code = v.Code
		}
		hint.Overload, hint.InDoubt = v.Overload, v.InDoubt
	}
	j := judgement{why: v.Reason, err: v.Err}
	if v.General && v.Reason == retry.Unknown {
		hint.InDoubt = hint.InDoubt || doubtful(a.Status, told)
		if k.Size() >= 0 && comeBack(a.Status, told, k.state.Idempotent) {
			j.why = retry.ServiceResponseCodeIndicated
		}
	}
	if text == nil {
		text = v.Body
	}
	failed := httpsvc.NewResponseError(a, text, push)
	if j.err == nil && v.General && comesBack(a.Status) {
		j.err = failed
	}
	if j.err == nil {
		return judgement{give: true}, nil
	}
	k.refusal, j.hint = failed, hint
	return j, nil
}

// comesBack says whether a status is one that tells to come back. Such an answer is a failure, whether it is retried or
// not.
func comesBack(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable ||
		status == http.StatusGatewayTimeout
}

// comeBack says whether a status is one to come back for: 429, and 503 with a delay, for any request; 503 without one
// and 504 for idempotent ones.
func comeBack(status int, told, idempotent bool) bool {
	switch status {
	case http.StatusTooManyRequests:
		return true
	case http.StatusServiceUnavailable:
		return told || idempotent
	case http.StatusGatewayTimeout:
		return idempotent
	}
	return false
}

// doubtful says whether a status alone leaves open that the request was executed: a failure inside of the service or
// behind a gateway. A service that says when to come back has refused the request.
func doubtful(status int, told bool) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		return true
	case http.StatusServiceUnavailable:
		return !told
	}
	return false
}

// pushbackHeader is what gRPC's servers send, and proxies in front of any service may: milliseconds, or a request not
// to be tried again.
const pushbackHeader = "Grpc-Retry-Pushback-Ms"

// pushback is what an answer says about the next attempt.
func pushback(h http.Header, now time.Time) retry.Pushback {
	if v := h[pushbackHeader]; len(v) > 0 {
		return retry.ParsePushback(v[0])
	}
	if d, ok := retryAfter(h.Get("Retry-After"), now); ok {
		return retry.PushbackAfter(d)
	}
	return retry.Pushback{}
}

// longestDelay is what a longer Retry-After counts as: 2^31 - 1 seconds, which is later than every deadline.
const longestDelay = math.MaxInt32 * time.Second

// retryAfter reads the header: seconds, or a date, of which a past one is 0. ok is false for anything else.
func retryAfter(v string, now time.Time) (d time.Duration, ok bool) {
	if v != "" && strings.Trim(v, "0123456789") == "" {
		seconds := time.Duration(0)
		for _, c := range v {
			seconds = min(10*seconds+time.Duration(c-'0'), math.MaxInt32)
		}
		return seconds * time.Second, true
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(max(t.Sub(now), 0), longestDelay), true
	}
	return 0, false
}
