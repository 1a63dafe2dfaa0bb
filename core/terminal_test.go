package core_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// The five terminal conditions: with the default strategy the first call fails with the condition's own error, in
// milliseconds after the server's answer; with BestEffort it fails at the deadline, and the timeout unwraps to the
// same cause.
func TestTerminalConditions(t *testing.T) {
	tlsOn := func(cfg *core.Config) {
		for i, h := range cfg.Seeds.Hosts {
			cfg.Seeds.Hosts[i] = strings.Replace(h, ":11210", ":11207", 1)
		}
		cfg.TLS.Config = &tls.Config{RootCAs: x509.NewCertPool()} // trusts no certificate
	}
	for _, tc := range []struct {
		name   string
		opts   []mock.Option
		change func(*core.Config)
		bucket string
		op     kv.Get
		want   *cberr.Kind
		reason retry.Reason
	}{
		{
			name: "wrong password", change: func(c *core.Config) { c.Auth.Password = core.NewSecret("wrong") },
			want: cberr.AuthenticationFailure, reason: retry.AuthenticationError,
		},
		{
			name: "untrusted certificate", opts: []mock.Option{mock.TLS()}, change: tlsOn, want: cberr.TLSFailure,
			reason: retry.TLSError,
		},
		{
			name: "no access to the bucket", opts: []mock.Option{mock.User("app", "secret", "other")},
			change: func(c *core.Config) { c.Auth.Username, c.Auth.Password = "app", core.NewSecret("secret") },
			want:   cberr.BucketAccess, reason: retry.BucketAccessError,
		},
		{
			name: "missing scope", op: kv.Get{Common: kv.Common{Scope: "nowhere", Collection: "c"}},
			want: cberr.ScopeNotFound, reason: retry.ScopeNotFound,
		},
		{
			name: "missing collection", op: kv.Get{Common: kv.Common{Collection: "nothing"}},
			want: cberr.CollectionNotFound, reason: retry.CollectionNotFound,
		},
	} {
		tc.op.Key = []byte("k")
		t.Run(tc.name+", default strategy", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := terminalBucket(t, tc.opts, tc.change)
				began := time.Now()
				_, err := kv.Do(ctx(t), b, tc.op)
				require.ErrorIs(t, err, tc.want)
				require.NotErrorIs(t, err, cberr.Timeout)
				require.Equal(t, tc.want, cberr.KindOf(err))
				require.Less(t, time.Since(began), 50*time.Millisecond)
				info, ok := retry.InfoOf(err)
				require.True(t, ok)
				require.Equal(t, tc.reason, info.Reason)
			})
		})
		t.Run(tc.name+", best effort", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := terminalBucket(t, tc.opts, tc.change)
				op := tc.op
				op.Retry = retry.BestEffort{}
				began := time.Now()
				_, err := kv.Do(ctx(t), b, op)
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, tc.want)
				require.Equal(t, 2500*time.Millisecond, time.Since(began))
			})
		})
	}
}

func terminalBucket(t *testing.T, opts []mock.Option, change func(*core.Config)) *core.Bucket {
	m := mock.Start(t, append(opts, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())...)
	if change == nil {
		change = func(*core.Config) {}
	}
	return open(t, m, change).Bucket("default")
}

// Calls that waited for the same lookup share its failure and nothing else: each has an error of its own (B8).
func TestWaitersOfOneLookupHaveErrorsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := terminalBucket(t, nil, nil)
		errs := make([]error, 64)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = kv.Do(t.Context(), b, kv.Get{Key: []byte("k"), Common: kv.Common{Collection: "nothing"}})
			})
		}
		wg.Wait()
		seen := map[*kv.Error]bool{}
		for _, err := range errs {
			var e *kv.Error
			require.ErrorAs(t, err, &e)
			require.ErrorIs(t, err, cberr.CollectionNotFound)
			require.NotEmpty(t, e.Context)
			require.False(t, seen[e])
			seen[e] = true
		}
	})
}

// A bucket that is absent for a user who may open it is transient: the timeout names it under both strategies, and it
// works once it exists.
func TestAbsentBucketIsTransient(t *testing.T) {
	for name, s := range map[string]retry.Strategy{"default": nil, "best effort": retry.BestEffort{}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual())
				b := open(t, m).Bucket("later")
				began := time.Now()
				_, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: kv.Common{Retry: s}})
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				require.ErrorIs(t, err, cberr.BucketNotFound)
				require.ErrorContains(t, err, `"later"`)
				require.Equal(t, 2500*time.Millisecond, time.Since(began))
				require.NoError(t, m.CreateBucket("later", 64))
				_, err = kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{
					Retry:   s,
					Timeout: 9 * time.Second,
				}})
				require.NoError(t, err)
			})
		})
	}
}

// A condition that is cured is forgotten: the next call succeeds without any help.
func TestTerminalConditionIsClearedBySuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual())
		c := open(t, m, func(c *core.Config) { c.Auth.Password = core.NewSecret("new") })
		_, err := kv.Do(ctx(t), c.Bucket("default"), kv.Get{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.AuthenticationFailure)
		require.NoError(t, m.SetPassword("Administrator", "new"))
		_, err = kv.Do(ctx(t), c.Bucket("default"), kv.Upsert{
			Key:    []byte("k"),
			Common: kv.Common{Retry: retry.BestEffort{}, Timeout: 9 * time.Second},
		})
		require.NoError(t, err)
		_, err = kv.Do(ctx(t), c.Bucket("default"), kv.Get{Key: []byte("k")})
		require.NoError(t, err)
	})
}

// A working path never fails because another connection is sick.
func TestSickNodeDoesNotFailHealthyOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
		m.Inject(mock.Match{Nodes: []int{2}, Opcodes: []memd.Opcode{memd.OpSASLStep}},
			mock.Status(memd.StatusAuthError))
		b := open(t, m).Bucket("default")
		ok, failed := 0, 0
		for i := range 64 {
			key := []byte{'k', byte(i)}
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key})
			_, nodes, _ := b.Locate(key)
			if nodes[0] == m.Node(2).Addr() {
				require.ErrorIs(t, err, cberr.AuthenticationFailure)
				failed++
			} else {
				require.NoError(t, err)
				ok++
			}
		}
		require.Positive(t, ok)
		require.Positive(t, failed)
	})
}

func TestWaitReadyFailsFastOnTerminalConditionsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual())
		wrong := func(c *core.Config) { c.Auth.Password = core.NewSecret("wrong") }
		began := time.Now()
		require.ErrorIs(t, open(t, m, wrong).Bucket("default").WaitReady(ctx(t)), cberr.AuthenticationFailure)
		require.ErrorIs(t, open(t, m, wrong).WaitReady(ctx(t)), cberr.AuthenticationFailure)
		require.Less(t, time.Since(began), 100*time.Millisecond)
		patient := open(t, m, wrong, func(c *core.Config) { c.Retry.Strategy = retry.BestEffort{} })
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := patient.Bucket("default").WaitReady(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, cberr.AuthenticationFailure)
		require.NoError(t, open(t, m).WaitReady(ctx(t)))
	})
}
