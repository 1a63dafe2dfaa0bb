package field_test

import (
	"context"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// A refusal that says so is terminal: calls and WaitReady end with it at once.
func TestAnExplicitRefusalIsTerminal_S9(t *testing.T) {
	for name, c := range map[string]struct {
		op     memd.Opcode
		status memd.Status
		want   *cberr.Kind
	}{
		"the login, 0x20":  {memd.OpSASLStep, memd.StatusAuthError, cberr.AuthenticationFailure},
		"the bucket, 0x24": {memd.OpSelectBucket, memd.StatusAccess, cberr.BucketAccess},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 8), mock.Virtual())
				m.Inject(mock.Match{Opcodes: []memd.Opcode{c.op}}, mock.Status(c.status))
				b, began := onMock(t, m, func(*core.Config) {}).Bucket("default"), time.Now()
				_, err := kv.Do(t.Context(), b, kv.Get{Key: []byte("k")})
				require.ErrorIs(t, err, c.want)
				require.NotErrorIs(t, err, cberr.Timeout)
				err = b.WaitReady(within(t, time.Second))
				require.ErrorIs(t, err, c.want)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				require.Less(t, time.Since(began), 50*time.Millisecond)
			})
		})
	}
}

// What may pass is not terminal: a call waits for it until its own deadline, and WaitReady as long as it may. Both name
// it, as no refusal. When it has passed, the next call succeeds.
func TestWhatMayPassIsNotTerminal_S9(t *testing.T) {
	status := func(op memd.Opcode, status memd.Status) func(*mock.Cluster, *core.Config) (cure func()) {
		return func(m *mock.Cluster, _ *core.Config) func() {
			return m.Inject(mock.Match{Opcodes: []memd.Opcode{op}}, mock.Status(status)).Remove
		}
	}
	dial := func(err error) func(*mock.Cluster, *core.Config) (cure func()) {
		return func(m *mock.Cluster, cfg *core.Config) func() {
			var cured atomic.Bool
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if cured.Load() {
					return m.Dial(ctx, network, addr)
				}
				return nil, err
			}
			return func() { cured.Store(true) }
		}
	}
	unknown := &net.DNSError{Err: "no such host", Name: "h", IsNotFound: true}
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, c := range map[string]struct {
		begin func(*mock.Cluster, *core.Config) (cure func())
		text  string
	}{
		"0x86 to a login":       {status(memd.OpSASLAuth, memd.StatusTmpFail), "SASL_AUTH"},
		"0x86 to a proof":       {status(memd.OpSASLStep, memd.StatusTmpFail), "SASL_STEP"},
		"0x01 to the bucket":    {status(memd.OpSelectBucket, memd.StatusKeyNotFound), "SELECT_BUCKET"},
		"0x86 to the bucket":    {status(memd.OpSelectBucket, memd.StatusTmpFail), "SELECT_BUCKET"},
		"the port is closed":    {dial(refused), "refused"},
		"the host is not known": {dial(unknown), "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 8), mock.Virtual())
				var cure func()
				b := onMock(t, m, func(cfg *core.Config) { cure = c.begin(m, cfg) }).Bucket("default")
				began := time.Now()
				_, err := kv.Do(t.Context(), b, kv.Get{Key: []byte("k"), Common: kv.Common{Timeout: 2 * time.Second}})
				require.Equal(t, 2*time.Second, time.Since(began))
				require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				ready := b.WaitReady(within(t, 2*time.Second))
				require.Equal(t, 4*time.Second, time.Since(began))
				require.ErrorIs(t, ready, context.DeadlineExceeded)
				for _, err := range []error{err, ready} {
					require.ErrorContains(t, err, c.text)
					require.NotErrorIs(t, err, cberr.AuthenticationFailure)
					require.NotErrorIs(t, err, cberr.BucketAccess)
					require.NotErrorIs(t, err, cberr.TLSFailure)
				}
				cure()
				require.NoError(t, b.WaitReady(within(t, 10*time.Second)))
				require.NoError(t, upsert(t, b))
			})
		})
	}
}
