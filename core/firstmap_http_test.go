package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// A request to a service waits for the first cluster map, as key-value calls do: waiting is no attempt, and no failure
// of the service. Another bucket that has no map yet delays no other.
func TestServicesWaitForTheFirstMap(t *testing.T) {
	for _, s := range typedServices {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual())
				m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpHello}}, mock.Delay(700*time.Millisecond))
				m.Script(mock.ServiceMatch{Service: s.service}, rows(`{"n":1}`))
				c := open(t, m)
				c.Bucket("default")
				c.Bucket("there is no such bucket")
				began := time.Now()
				r, err := s.run(ctx(t), c, true)
				require.NoError(t, err)
				require.Equal(t, 700*time.Millisecond, time.Since(began), "as soon as the map is there")
				require.Zero(t, r.(interface{ RetryInfo() retry.Info }).RetryInfo().Retries())
				require.NoError(t, r.Close())
			})
		})
	}
}

// How the waiting ends without a map.
func TestServicesWithoutAFirstMap(t *testing.T) {
	for name, c := range map[string]struct {
		fault   mock.Fault
		op      memd.Opcode
		timeout time.Duration
		kind    error
		took    time.Duration
	}{
		"a server that never answers": {
			mock.DropReply(), memd.OpHello, time.Second, cberr.UnambiguousTimeout,
			time.Second,
		},
		"a wrong password": {
			mock.Status(memd.StatusAuthError), memd.OpSASLAuth, time.Minute,
			cberr.AuthenticationFailure, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(1), mock.Virtual())
				m.Inject(mock.Match{Opcodes: []memd.Opcode{c.op}}, c.fault)
				cl := open(t, m)
				began := time.Now()
				x, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				_, err := typedServices[0].run(x, cl, true)
				require.ErrorIs(t, err, c.kind)
				require.InDelta(t, c.took, time.Since(began), float64(50*time.Millisecond))
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // the caller gives up
		m := mock.Start(t, mock.Nodes(1), mock.Virtual())
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpHello}}, mock.DropReply())
		cl := open(t, m)
		x, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		_, err := cl.Do(x, &core.HTTPRequest{Service: core.Query, Method: "GET", Path: "/admin/ping"})
		require.ErrorIs(t, err, cberr.RequestCanceled)
		require.Equal(t, time.Second, time.Since(began))
	})
	synctest.Test(t, func(t *testing.T) { // and so does the cluster
		m := mock.Start(t, mock.Nodes(1), mock.Virtual())
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpHello}}, mock.DropReply())
		cl := open(t, m)
		time.AfterFunc(time.Second, func() { _ = cl.Close() })
		_, err := cl.Do(t.Context(), &core.HTTPRequest{Service: core.Query, Method: "GET", Path: "/admin/ping"})
		require.ErrorIs(t, err, retry.ErrClosed)
	})
}
