package field_test

import (
	"context"
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
	"github.com/couchcore/couchcore/mock"
)

// While no data node can be reached, maps are asked for over HTTP, where a wrong certificate is shown. The node comes
// back, and its connection ends once more shortly after: calls wait for the next one. What was met over HTTP before is
// no reason to end them.
func TestWhatTheMapsSourceHasMetIsForgotten_D249(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Replicas(0), mock.Bucket("default", 1), mock.TLS(), mock.Virtual())
		var refused, asked atomic.Bool
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.HasSuffix(addr, ":18091") {
				asked.Store(true)
			} else if refused.Load() {
				return nil, errors.New("refused")
			}
			return m.Dial(ctx, network, addr)
		}
		encrypted, err := core.ParseConnString(m.TLSConnString())
		require.NoError(t, err)
		b := openMock(t, m, func(cfg *core.Config) {
			cfg.Seeds, cfg.TLS, cfg.Net.Dial = encrypted.Seeds, encrypted.TLS, dial
			cfg.TLS.Config = trusted(m)
		})
		get := func() error {
			_, err := kv.Do(context.Background(), b, kv.Upsert{Key: []byte("k")})
			return err
		}
		refused.Store(true)
		require.NoError(t, m.SetCertificate(mock.OtherNameCertificate))
		require.NoError(t, m.ResetConns(0))
		for !asked.Load() {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, m.SetCertificate(mock.GoodCertificate))
		refused.Store(false)
		for get() != nil { // until it is connected to, the certificate is the reason
			time.Sleep(10 * time.Millisecond)
		}
		refused.Store(true)
		require.NoError(t, m.ResetConns(0))
		time.AfterFunc(100*time.Millisecond, func() { refused.Store(false) })
		require.NoError(t, get())
	})
}

// A node is asked for maps over HTTP because no connection can be made, and fails after one was made again: no other
// node is asked over HTTP any more.
func TestMapsAreNotAskedForOverHTTPWithAConnection_D256(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.TLS(), mock.Virtual())
		encrypted, err := core.ParseConnString(m.TLSConnString())
		require.NoError(t, err)
		var refused atomic.Bool
		var asked atomic.Int64
		b := openMock(t, m, func(cfg *core.Config) {
			cfg.Seeds, cfg.TLS, cfg.TLS.Config = encrypted.Seeds, encrypted.TLS, trusted(m)
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				for i := range 3 {
					if addr != m.Node(i).ManagementTLSAddr() {
						continue
					}
					if asked.Add(1) == 1 { // it takes its time
						refused.Store(false)
						time.Sleep(time.Second)
					}
					return nil, errors.New("refused")
				}
				if refused.Load() {
					return nil, errors.New("refused")
				}
				return m.Dial(ctx, network, addr)
			}
		})
		refused.Store(true)
		for i := range 3 {
			require.NoError(t, m.ResetConns(i))
		}
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 1, asked.Load())
		_, err = kv.Do(context.Background(), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
	})
}
