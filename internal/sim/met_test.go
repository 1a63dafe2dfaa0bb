package sim

import (
	"context"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// inWorld runs f in a bubble with a world that has one node and no client.
func inWorld(t *testing.T, f func(t *testing.T, w *world, addr string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			plan:   &plan{d: 1, latency: time.Millisecond, connections: 1},
			report: newReport(Options{}), tap: newTaps(), began: time.Now(),
		}
		m, err := mock.New(mock.Nodes(1), mock.Virtual(), mock.Bucket(bucketName, 1))
		require.NoError(t, err)
		w.m = m
		m.Network().OnLink(w.link)
		f(t, w, w.addresses()[0])
		require.NoError(t, m.Close())
	})
}

// begun begins a fault of the table.
func begun(t *testing.T, w *world, name, addr string) (end func() int) {
	t.Helper()
	table := faults()
	i := slices.IndexFunc(table, func(f fault) bool { return f.name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return table[i].begin(w, newSource(1), addr)
}

// A fault of connections over which nothing goes is met by none of them.
func TestFaultsOfConnectionsCountWhatMeetsThem(t *testing.T) {
	for _, name := range []string{
		"5 end of stream anywhere", "7 half-open", "8 slow close", "9 one-byte reads", "9 pieces of any size",
		"10 short write", "11 latency spike", "12 little bandwidth", "12 a node reads slowly",
		"13 stall, then the rest", "14a requests are lost", "14b replies are lost", "15 partition",
		"15 asymmetric partition", "16 all sockets reset", shortWrites,
	} {
		met := func(t *testing.T, talks bool) (n int) {
			inWorld(t, func(t *testing.T, w *world, addr string) {
				c, err := w.m.Dial(t.Context(), "tcp", addr)
				require.NoError(t, err)
				if talks {
					go func() { _, _ = io.Copy(io.Discard, c) }() // it ends with the connection
					synctest.Wait()
				}
				var end func() int
				if name == shortWrites {
					cut := w.cutShort(newSource(1))
					end = func() int {
						cut()
						return w.report.FaultsFired[shortWrites]
					}
				} else {
					end = begun(t, w, name, addr)
				}
				for range 200 {
					time.Sleep(10 * time.Millisecond)
					if talks {
						_, _ = c.Write(nothing()) // some of the faults make it fail
					}
				}
				n = end()
				require.NoError(t, c.Close())
			})
			return n
		}
		t.Run(name, func(t *testing.T) {
			require.Zero(t, met(t, false), "nothing has gone over the connection")
			require.Positive(t, met(t, true))
		})
	}
}

// nothing is a request that nodes answer without a login.
func nothing() []byte {
	b := make([]byte, header)
	b[0], b[1] = byte(memd.MagicReq), byte(memd.OpNoop)
	return b
}

// A spike does not count what goes at the usual pace again, although another spike has ended it.
func TestASpikeCountsWhatItDelays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, addr string) {
		c, err := w.m.Dial(t.Context(), "tcp", addr)
		require.NoError(t, err)
		const spike = "11 latency spike"
		first, second := begun(t, w, spike, addr), begun(t, w, spike, addr)
		require.Zero(t, second())
		_, err = c.Write(nothing())
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Zero(t, first())
		third := begun(t, w, spike, addr)
		require.NoError(t, c.Close())
		require.Zero(t, third(), "the end of the stream")
	})
}

// An alert counts when a record goes out changed, and once.
func TestAlertsCountChangedRecords(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, addr string) {
		near, far := net.Pipe()
		c := &wire{Conn: near, tap: w.tap, addr: addr, secret: newSniffer(&w.tap.secrets)}
		c.flips, c.leaves, c.answered = func() { w.fired(alertAnswered, 1) }, w.leaves, w.answered
		w.tap.secret = append(w.tap.secret, c)
		require.Zero(t, begun(t, w, alertAnswered, addr)())
		require.Zero(t, w.report.FaultsFired[alertAnswered])
		sends := func(kind byte) (last byte) {
			got := make(chan []byte)
			go func() {
				b := make([]byte, 7)
				_, _ = io.ReadFull(far, b) // what is missing shows in the bytes
				got <- b
			}()
			_, err := c.Write([]byte{kind, 3, 3, 0, 2, 8, 8})
			require.NoError(t, err)
			return (<-got)[6]
		}
		require.EqualValues(t, 8, sends(recordHandshake))
		require.Zero(t, w.report.FaultsFired[alertAnswered])
		require.EqualValues(t, 9, sends(recordApplication))
		require.EqualValues(t, 8, sends(recordApplication))
		require.Equal(t, 1, w.report.FaultsFired[alertAnswered])
	})
}

// A certificate, and a jump of the client's clock, count the handshakes that they meet as a whole.
func TestCertificatesCountHandshakes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, addr string) {
		at := host(addr)
		handshake := func(from, to time.Duration) map[string]int {
			met := &wire{addr: addr, secret: newSniffer(&w.tap.secrets)}
			met.secret.hello, met.secret.server = w.began.Add(from), w.began.Add(to)
			met.secret.refused = met.secret.server
			w.tap.secret = []*wire{met}
			w.report.FaultsFired = map[string]int{}
			w.checkCertificates()
			return w.report.FaultsFired
		}
		for kind, name := range certificates {
			w.shown = map[string][]shown{at: {{span{time.Second, 2 * time.Second}, kind}}}
			require.Empty(t, handshake(time.Second/2, 3*time.Second/2), name)
			require.Empty(t, handshake(3*time.Second/2, 5*time.Second/2), name)
			require.Equal(t, map[string]int{name: 1}, handshake(1100*time.Millisecond, 1900*time.Millisecond))
		}
		w.shown, w.jumps = nil, []jump{{span{time.Second, 2 * time.Second}, -3 * time.Hour}}
		require.Empty(t, handshake(time.Second/2, 3*time.Second/2))
		require.Equal(t, map[string]int{clockJumps: 1}, handshake(1100*time.Millisecond, 1900*time.Millisecond))
		w.jumps[0].by = time.Hour
		require.Empty(t, handshake(1100*time.Millisecond, 1900*time.Millisecond), "the certificate is valid then")
	})
}

// A silence in the handshake of TLS counts what of it has waited.
func TestSilencesInHandshakesCountWhatWaits(t *testing.T) {
	const silence = "2 silence in the handshake of TLS"
	inWorld(t, func(t *testing.T, w *world, addr string) {
		w.stalls = map[string]*stall{}
		require.Zero(t, begun(t, w, silence, addr)())
		end := begun(t, w, silence, addr)
		c, err := w.m.Dial(t.Context(), "tcp", addr)
		require.NoError(t, err)
		go func() { _, _ = io.Copy(io.Discard, c) }() // it ends with the connection
		// An answer has a header at least, and no silence begins behind more than 1500 bytes.
		for range 100 {
			_, err = c.Write(nothing())
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		require.NotZero(t, end())
		require.NoError(t, c.Close())
	})
}

// A jump of the nodes' clock counts the locks that it ends, and what nodes are asked about locks and expiries then.
func TestJumpsOfTheNodesClockCountWhatMeetsThem(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, addr string) {
		const jump = "clock jumps: the nodes'"
		require.Zero(t, begun(t, w, jump, addr)())
		cfg, err := core.ParseConnString(w.m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
		cfg.Net.Dial = w.m.Dial
		c, err := core.Open(context.Background(), cfg)
		require.NoError(t, err)
		b, key := c.Bucket(bucketName), []byte("k")
		_, err = kv.Do(t.Context(), b, kv.Upsert{Key: key, Value: []byte("v")})
		require.NoError(t, err)
		require.Zero(t, begun(t, w, jump, addr)(), "nothing is locked")
		_, err = kv.Do(t.Context(), b, kv.GetAndLock{Key: key, LockTime: lockFor})
		require.NoError(t, err)
		end := begun(t, w, jump, addr)
		require.Equal(t, 1, w.report.Reached[lockJumped])
		require.Equal(t, 1, end())
		end = begun(t, w, jump, addr)
		_, err = kv.Do(t.Context(), b, kv.GetAndLock{Key: key, LockTime: lockFor})
		require.NoError(t, err)
		require.Equal(t, 1, end())
		require.Equal(t, 1, w.report.Reached[lockJumped])
		require.NoError(t, c.Close())
	})
}
