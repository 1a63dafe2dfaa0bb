package field_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// mutation changes a packet on its way to the client. Packets are counted over all connections of the session.
type mutation struct {
	kind, value byte
	at          int
}

// mutations reads five bytes for each: the packet's number, what to do with it, where, and the value to do it with.
func mutations(program []byte) map[int][]mutation {
	all := map[int][]mutation{}
	for ; len(program) >= 5; program = program[5:] {
		n := int(program[0])
		all[n] = append(all[n], mutation{program[1], program[4], int(program[2])<<8 | int(program[3])})
	}
	return all
}

// honest is true for one that loses, doubles or adds bytes, and changes none.
func (m mutation) honest() bool { return slices.Contains([]byte{2, 3, 4, 6}, m.kind%10) }

// apply gives what takes the packet's place, and whether the connection ends behind it.
func (m mutation) apply(packet []byte) (out []byte, end bool) {
	at := m.at % len(packet)
	switch m.kind % 10 {
	case 0:
		packet[at] ^= m.value
	case 1:
		packet[at] = m.value
	case 2:
		return packet[:at], true
	case 3:
		return append(packet, packet...), false
	case 4:
		return nil, false
	case 5: // the status
		packet[6], packet[7] = byte(m.at>>8), m.value
	case 6: // bytes that are no packet
		return append([]byte{m.value, byte(m.at)}, packet...), false
	case 7: // a body of another length
		packet[8], packet[9], packet[10], packet[11] = 0, 0, byte(m.at>>8), m.value
	case 8: // the opaque
		packet[15] ^= m.value
	case 9:
		for i := range min(len(packet)-at, 8) {
			packet[at+i] = m.value
		}
	}
	return packet, false
}

// mutator mutates the packets of one connection.
type mutator struct {
	net.Conn
	next    func() []mutation
	in, out []byte
	end     bool
}

func (c *mutator) Read(b []byte) (int, error) {
	for len(c.out) == 0 {
		if c.end {
			_ = c.Conn.Close()
			return 0, io.EOF
		}
		buf := make([]byte, 4096)
		n, err := c.Conn.Read(buf)
		c.in = append(c.in, buf[:n]...)
		for len(c.in) >= memd.HeaderLen && !c.end {
			h, bad := memd.ParseHeader(c.in, 0)
			if whole := memd.HeaderLen + h.BodyLen; bad == nil && len(c.in) >= whole {
				packet := append([]byte(nil), c.in[:whole]...)
				c.in = c.in[whole:]
				for _, m := range c.next() {
					if len(packet) >= memd.HeaderLen {
						packet, c.end = m.apply(packet)
					}
				}
				c.out = append(c.out, packet...)
				continue
			}
			break
		}
		if err != nil && len(c.out) == 0 {
			return 0, err
		}
	}
	n := copy(b, c.out)
	c.out = c.out[n:]
	return n, nil
}

// FuzzSession: a server whose answers are mutated on their way, from the handshake on. Each call ends once, by its
// deadline, with a *kv.Error if it fails; the client closes in time and leaves nothing. Unless an answer says something
// else than the server did, no write is applied twice.
func FuzzSession(f *testing.F) {
	f.Add([]byte{}, false)
	for n := range byte(24) { // each packet of a session, the handshake's among them
		f.Add([]byte{n, 0, 0, 1, 0xff}, false)
		f.Add([]byte{n, 5, 0, 0, 0x86}, true)
		f.Add([]byte{n, 2, 0, 20, 0, n + 1, 3, 0, 0, 0}, false)
		f.Add([]byte{n, 7, 0xff, 0, 0xff, n + 2, 9, 0, 24, 'x'}, n%2 == 0)
	}
	f.Fuzz(func(t *testing.T, program []byte, inClear bool) {
		if len(program) > 200 {
			return
		}
		synctest.Test(t, func(t *testing.T) { session(t, mutations(program), inClear) })
	})
}

func session(t *testing.T, all map[int][]mutation, inClear bool) {
	m := mock.Start(t, mock.Nodes(2), mock.Virtual(), mock.Bucket("default", 4, mock.WithCollection("s", "c")))
	var mu sync.Mutex
	packets := 0
	next := func() []mutation {
		mu.Lock()
		defer mu.Unlock()
		packets++
		return all[packets-1]
	}
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	if inClear {
		cfg.Auth.Mechanisms, cfg.Auth.AllowPlain = []string{"PLAIN"}, true
	}
	cfg.Net.NodeFilter = core.AnyNode
	cfg.Maps.Bootstrap = core.BootstrapKV
	cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := m.Dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &mutator{Conn: nc, next: next}, nil
	}
	cfg.Limits.Packet = 1 << 20
	c, err := core.Open(context.Background(), cfg)
	require.NoError(t, err)
	b := c.Bucket("default")
	const limit = 2 * time.Second
	in := kv.Common{Timeout: limit}
	began := time.Now()
	judge := func(what string, err error) {
		var ke *kv.Error
		require.LessOrEqual(t, time.Since(began), limit, what)
		require.True(t, err == nil || errors.As(err, &ke) && ke.Error() != "", "%s: %T", what, err)
	}
	var wg sync.WaitGroup
	call := func(what string, f func() error) { wg.Go(func() { judge(what, f()) }) }
	for i := range 3 {
		key := fmt.Appendf(nil, "k-%d", i)
		call("insert", func() error {
			_, err := kv.Do(context.Background(), b, kv.Insert{Common: in, Key: key, Value: key})
			return err
		})
		call("get", func() error {
			_, err := kv.Do(context.Background(), b, kv.Get{Common: in, Key: key})
			return err
		})
	}
	call("upsert", func() error {
		in := in
		in.Scope, in.Collection = "s", "c"
		_, err := kv.Do(context.Background(), b, kv.Upsert{Common: in, Key: []byte("c-0"), Value: make([]byte, 100)})
		return err
	})
	call("lookup", func() error {
		_, err := kv.Do(context.Background(), b, kv.LookupIn{
			Common: in, Key: []byte("k-0"), Specs: []kv.LookupSpec{kv.GetPath("a"), kv.ExistsPath("b")},
		})
		return err
	})
	call("manifest", func() error {
		_, err := kv.Do(context.Background(), b, kv.GetManifest{Common: in})
		return err
	})
	call("many", func() error {
		var failed error
		for _, o := range kv.GetMulti(context.Background(), b, in, [][]byte{[]byte("k-1"), []byte("k-2")}) {
			if o.Err != nil {
				failed = o.Err
			}
		}
		return failed
	})
	wg.Wait()
	closing := time.Now()
	require.NoError(t, c.Close())
	require.LessOrEqual(t, time.Since(closing), 5*time.Second)
	for _, ms := range all {
		for _, m := range ms {
			if !m.honest() {
				return // what a server says was not applied may be sent again
			}
		}
	}
	times := map[string]int{}
	for _, a := range m.ApplyLog("default") {
		times[a.Key]++
		require.Equal(t, 1, times[a.Key], "%s was applied more than once", a.Key)
	}
}
