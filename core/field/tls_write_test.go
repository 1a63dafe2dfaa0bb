package field_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// hastyConn says of one write that it has failed, although it has taken all bytes.
type hastyConn struct {
	net.Conn
	armed *atomic.Bool
}

func (c hastyConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil && c.armed.CompareAndSwap(true, false) {
		err = errors.New("the connection has failed")
	}
	return n, err
}

// A node executes what the connection has taken, whatever the connection says. crypto/tls does not count the bytes of a
// write that has failed, so the request counted as unsent and was sent again.
func TestAWriteThatFailsBehindAllItsBytesIsInDoubt_D235(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(map[bool]string{false: "TCP", true: "TLS"}[encrypted], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(1), mock.Replicas(0), mock.Bucket("default", 4), mock.Virtual(),
					mock.TLS())
				var armed atomic.Bool
				b := openMock(t, m, func(cfg *core.Config) {
					if encrypted {
						cfg.Seeds.Hosts[0] = strings.Replace(cfg.Seeds.Hosts[0], ":11210", ":11207", 1)
						pool := x509.NewCertPool()
						pool.AppendCertsFromPEM(m.CA())
						cfg.TLS.Config = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
					}
					cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
						nc, err := m.Dial(ctx, network, addr)
						return hastyConn{nc, &armed}, err
					}
				})
				first := uint64(0)
				count := kv.Increment{Key: []byte("n"), Delta: 1, Initial: &first}
				_, err := kv.Do(fresh(t), b, count)
				require.NoError(t, err)
				// An answer that comes before the failure is noticed would end the call.
				m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpIncrement}, Times: 1},
					mock.DelayReply(10*time.Millisecond))
				armed.Store(true)
				_, err = kv.Do(fresh(t), b, count)
				var e *kv.Error
				require.ErrorAs(t, err, &e)
				require.True(t, e.Ambiguous(), "%v", err)
				require.False(t, armed.Load())
				res, err := kv.Do(fresh(t), b, count)
				require.NoError(t, err)
				// The node may have found its connection closed before it executed the one in doubt.
				require.LessOrEqual(t, res.Value, uint64(2), "one was applied twice")
			})
		})
	}
}
