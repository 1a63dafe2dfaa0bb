package promises_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// noTLS is a connection to what speaks something else.
type noTLS struct{ net.Conn }

func (noTLS) Read(p []byte) (int, error) { return copy(p, "HTTP/1.1 400 Bad Request"), nil }

// Conditions that are known at the same time have the document's order: a refused login, a failed handshake, a bucket
// without access. The first gives the reason, and all are told.
func TestOfSeveralConditionsTheLoginIsNamedFirst(t *testing.T) {
	kinds := []error{cberr.AuthenticationFailure, cberr.TLSFailure, cberr.BucketAccess}
	names := []retry.Reason{retry.AuthenticationError, retry.TLSError, retry.BucketAccessError}
	for _, met := range [][]int{{0, 1, 2}, {0, 1}, {0, 2}, {1, 2}, {2}} { // nodes, each with its condition
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			m.Inject(mock.Match{Nodes: []int{0}, Opcodes: []memd.Opcode{memd.OpSASLAuth}},
				mock.Status(memd.StatusAuthError))
			m.Inject(mock.Match{Nodes: []int{2}, Opcodes: []memd.Opcode{memd.OpSelectBucket}},
				mock.Status(memd.StatusAccess))
			for node := range 3 {
				if !slices.Contains(met, node) {
					silence(m, node)
				}
			}
			b := client(t, m, encrypted(m), func(cfg *core.Config) {
				dial, at := cfg.Net.Dial, strings.Replace(m.Node(1).Addr(), ":11210", ":11207", 1)
				cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					nc, err := dial(ctx, network, addr)
					if err == nil && addr == at && slices.Contains(met, 1) {
						nc = noTLS{nc}
					}
					return nc, err
				}
			}).Bucket("default")
			time.Sleep(time.Second)
			err := get(within(t, time.Second), b, "k")
			info, ok := retry.InfoOf(err)
			require.True(t, ok)
			require.Equal(t, names[met[0]], info.Reason, "%v: %v", met, err)
			said := 0
			for _, node := range met {
				require.ErrorIs(t, err, kinds[node], "%v", met)
				host, _, _ := net.SplitHostPort(m.Node(node).Addr())
				at := strings.Index(err.Error(), host)
				require.Greater(t, at, said, "%v: %v", met, err)
				said = at
			}
		}, mock.Nodes(3), mock.TLS())
	}
}
