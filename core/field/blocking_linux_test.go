package field_test

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/scripted"
)

// blockingCase is the environment variable that names the case to the process that runs it.
const blockingCase = "COUCHCORE_BLOCKING_CASE"

// blockingCases say what is done with the connection that Dial gives, and what with it later.
var blockingCases = map[string]struct{ atDial, later func(*net.TCPConn) error }{
	"at dial": {atDial: block, later: leave},
	"later":   {atDial: leave, later: block},
}

func leave(*net.TCPConn) error { return nil }

// block clears O_NONBLOCK, as (*os.File).Fd does with the file of a connection.
func block(nc *net.TCPConn) error {
	raw, err := nc.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = syscall.SetNonblock(int(fd), false) }); err != nil {
		return err
	}
	return failed
}

// The descriptor of a connection may be in blocking mode when the user's Dial returns it, or later. No system call of
// the client may keep a processor meanwhile: a garbage collection would never end, and with it the process. So each
// case is a process of its own, which is ended if it hangs.
func TestABlockingDescriptorHoldsNoProcessor_D138(t *testing.T) {
	if name := os.Getenv(blockingCase); name != "" {
		onBlockingDescriptors(t, name)
		return
	}
	for name := range blockingCases {
		t.Run(name, func(t *testing.T) {
			child := exec.CommandContext(within(t, 30*time.Second), os.Args[0],
				"-test.run=^TestABlockingDescriptorHoldsNoProcessor_D138$")
			child.Env = append(os.Environ(), blockingCase+"="+name)
			output, err := child.CombinedOutput()
			require.NoError(t, err, "%s", output)
		})
	}
}

func onBlockingDescriptors(t *testing.T, name string) {
	const gets, timeout, late = 64, time.Second, 5 * time.Second
	s := scripted.New(t, 1)
	node := s.Nodes[0]
	node.SetHook(func(_ *scripted.Session, p *memd.Packet) bool { return p.Opcode == memd.OpGet }) // no answer
	var dialed *net.TCPConn
	c := open(t, s, func(cfg *core.Config) {
		cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			var d net.Dialer
			nc, err := d.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			dialed = nc.(*net.TCPConn)
			return dialed, blockingCases[name].atDial(dialed)
		}
	})
	b := c.Bucket("default")
	require.NoError(t, upsert(t, b))
	require.NoError(t, blockingCases[name].later(dialed))

	began := time.Now()
	var calls sync.WaitGroup
	for range gets {
		calls.Go(func() {
			_, err := kv.Do(context.Background(), b, kv.Get{Common: kv.Common{Timeout: timeout}, Key: []byte("k")})
			if err == nil {
				t.Error("a Get succeeded that the node has not answered")
			}
		})
	}
	require.Eventually(t, func() bool { return node.Requests(memd.OpGet) == gets }, late, time.Millisecond)
	require.NoError(t, upsert(t, b), "its answer is read while many calls are in flight")
	runtime.GC()
	calls.Wait()
	require.Less(t, time.Since(began), timeout+late, "the calls or a garbage collection ended late")

	began = time.Now()
	require.NoError(t, c.Close())
	require.Less(t, time.Since(began), late, "Close waited for a system call")
}

// silenceable is a relay to a node, until the test's end. When it is silent, what the client sends is lost.
func silenceable(t *testing.T, addr string) (at string, silent *atomic.Bool) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	silent = new(atomic.Bool)
	var ways sync.WaitGroup
	ways.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _, _ = near.Close(), far.Close() })
			ways.Go(func() { _, _ = io.Copy(near, far) })
			ways.Go(func() {
				b := make([]byte, 4096)
				for n, err := near.Read(b); err == nil; n, err = near.Read(b) {
					if !silent.Load() {
						_, _ = far.Write(b[:n])
					}
				}
			})
		}
	})
	t.Cleanup(ways.Wait)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String(), silent
}

// Over TLS, too, a read ends before its socket is closed. The socket is below what watches it in the handshake.
func TestCloseOverTLSDoesNotWaitForABlockingRead_D236(t *testing.T) {
	m := mock.Start(t, mock.TLS(), mock.Nodes(1), mock.Replicas(0))
	at, silent := silenceable(t, m.Nodes()[0].TLSAddr())
	cfg := overTLS(t, m, "Administrator", "password")
	dialed := make(chan *net.TCPConn, 16)
	cfg.Net.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		nc, err := d.DialContext(ctx, network, at)
		if err == nil {
			dialed <- nc.(*net.TCPConn)
		}
		return nc, err
	}
	c := openConfig(t, cfg)
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(within(t, 10*time.Second)))
	for range len(dialed) {
		require.NoError(t, block(<-dialed))
	}
	require.NoError(t, upsert(t, b))
	time.Sleep(50 * time.Millisecond) // behind its answer the reader is in a read that blocks
	silent.Store(true)                // the node does not answer when TLS takes its leave
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(5 * time.Second):
		m.Close() // the read ends
		require.NoError(t, <-closed)
		t.Fatal("Close waited for a read")
	}
}
