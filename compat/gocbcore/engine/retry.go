//go:build ignore

package gocbcore

import (
	"context"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/couchcore/couchcore/retry"
)

// reasons are couchcore's reasons as gocbcore has them.
var reasons = map[retry.Reason]retryReason{
	retry.Unknown:                        UnknownRetryReason,
	retry.SocketNotAvailable:             SocketNotAvailableRetryReason,
	retry.ServiceNotAvailable:            ServiceNotAvailableRetryReason,
	retry.NodeNotAvailable:               NodeNotAvailableRetryReason,
	retry.CircuitBreakerOpen:             CircuitBreakerOpenRetryReason,
	retry.EndpointNotWritable:            PipelineOverloadedRetryReason,
	retry.WriteFailed:                    MemdWriteFailure,
	retry.KVNotMyVBucket:                 KVNotMyVBucketRetryReason,
	retry.KVCollectionOutdated:           KVCollectionOutdatedRetryReason,
	retry.BucketNotReady:                 BucketNotReadyReason,
	retry.NotReady:                       NotReadyRetryReason,
	retry.KVErrorMapRetryIndicated:       KVErrMapRetryReason,
	retry.KVLocked:                       KVLockedRetryReason,
	retry.KVSyncWriteInProgress:          KVSyncWriteInProgressRetryReason,
	retry.KVSyncWriteReCommitInProgress:  KVSyncWriteRecommitInProgressRetryReason,
	retry.KVTemporaryFailure:             KVTemporaryFailureRetryReason,
	retry.AnalyticsTemporaryFailure:      AnalyticsTemporaryFailureRetryReason,
	retry.SearchTooManyRequests:          SearchTooManyRequestsRetryReason,
	retry.ServiceResponseCodeIndicated:   ServiceResponseCodeIndicatedRetryReason,
	retry.SocketClosedWhileInFlight:      SocketCloseInFlightRetryReason,
	retry.QueryPreparedStatementFailure:  QueryPreparedStatementFailureRetryReason,
	retry.QueryIndexNotFound:             QueryIndexNotFoundRetryReason,
	retry.QueryErrorRetryable:            QueryErrorRetryable,
	retry.CredentialsFetchFailed:         CredentialsFetchFailedRetryReason,
	retry.AuthenticationError:            ConnectionErrorRetryReason,
	retry.TLSError:                       ConnectionErrorRetryReason,
	retry.BucketAccessError:              BucketNotReadyReason,
	retry.CollectionNotFound:             KVCollectionOutdatedRetryReason,
	retry.ScopeNotFound:                  KVCollectionOutdatedRetryReason,
	retry.CollectionMapRefreshInProgress: KVCollectionOutdatedRetryReason,
}

// reasonOf is a reason of couchcore's. One that gocbcore does not have keeps its own name.
func reasonOf(why retry.Reason) RetryReason {
	if r, ok := reasons[why]; ok {
		return r
	}
	return retryReason{
		allowsNonIdempotentRetry: why.AllowsNonIdempotent(), alwaysRetry: why.AlwaysRetry(), description: why.String(),
	}
}

func reasonsOf(list []retry.Reason) (all []RetryReason) {
	for _, why := range list {
		all = append(all, reasonOf(why))
	}
	return all
}

// request is a call that failed, as a program's strategy sees it.
type request struct {
	attempts   uint32
	id         string
	idempotent bool
	reasons    []RetryReason
}

func (r *request) RetryAttempts() uint32          { return r.attempts }
func (r *request) Identifier() string             { return r.id }
func (r *request) Idempotent() bool               { return r.idempotent }
func (r *request) RetryReasons() []RetryReason    { return r.reasons }
func (r *request) retryStrategy() RetryStrategy   { return nil }
func (r *request) recordRetryAttempt(RetryReason) {}

// strategy is a program's strategy as couchcore asks it.
type strategy struct {
	own    RetryStrategy
	inline bool
}

// decide asks a program's strategy: for couchcore's orchestrator, and for the wait for readiness, which gocbcore has
// decided by its strategies, too.
func decide(s RetryStrategy, r *request, why RetryReason) RetryAction { return s.RetryAfter(r, why) }

// RetryAfter implements retry.Strategy. A reason that gocbcore always retries is no question to the program's strategy.
func (s *strategy) RetryAfter(_ context.Context, r *retry.Request, why retry.Reason) retry.Action {
	if reasonOf(why).AlwaysRetry() {
		return retry.After(ControlledBackoff(uint32(max(r.Retries(), 0))))
	}
	action := decide(s.own, &request{
		attempts: uint32(max(r.Retries(), 0)), id: r.ID, idempotent: r.Idempotent,
		reasons: reasonsOf(slices.Collect(r.Reasons.All())),
	}, reasonOf(why))
	if action == nil {
		return retry.Stop()
	}
	if d := action.Duration(); d > 0 {
		return retry.After(d)
	}
	return retry.Stop()
}

// Inline implements retry.Inline: gocbcore's own strategies never block.
func (s *strategy) Inline() bool { return s.inline }

// strategies makes strategies of couchcore's, and remembers the last one: programs use the same one again and again.
type strategies struct {
	fallback *strategy
	last     atomic.Pointer[strategy]
}

func newStrategies(fallback RetryStrategy) *strategies {
	if fallback == nil {
		fallback = newFailFastRetryStrategy()
	}
	return &strategies{fallback: newStrategy(fallback)}
}

func newStrategy(own RetryStrategy) *strategy {
	s := &strategy{own: own}
	switch own.(type) {
	case *failFastRetryStrategy, *BestEffortRetryStrategy:
		s.inline = true
	}
	return s
}

// of is a program's strategy; nil is the agent's own. Every operation has one: what couchcore would do without one is
// left to waiting for readiness, which gives up where a strategy of ours would.
func (ss *strategies) of(own RetryStrategy) retry.Strategy {
	if own == nil {
		return ss.fallback
	}
	if s := ss.last.Load(); s != nil && s.own == own { // the last one's type can be compared
		return s
	}
	if !reflect.TypeOf(own).Comparable() {
		return newStrategy(own)
	}
	s := newStrategy(own)
	ss.last.Store(s)
	return s
}
