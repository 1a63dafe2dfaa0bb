package testkit_test

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/memd"
)

// ask sends one request on its own connection and returns the answer.
func ask(t *testing.T, c net.Conn, p memd.Packet) memd.Packet {
	t.Helper()
	p.Magic = memd.MagicReq
	out, err := p.AppendTo(nil)
	require.NoError(t, err)
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = c.Write(out)
	require.NoError(t, err)
	raw := make([]byte, memd.HeaderLen)
	_, err = io.ReadFull(c, raw)
	require.NoError(t, err)
	raw = append(raw, make([]byte, binary.BigEndian.Uint32(raw[8:]))...)
	_, err = io.ReadFull(c, raw[memd.HeaderLen:])
	require.NoError(t, err)
	var got memd.Packet
	_, err = got.Parse(raw, memd.DefaultLimit)
	require.NoError(t, err)
	return got
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestCouchbaseMockObeysItsControlCommands(t *testing.T) {
	testkit.CouchbaseMock(t, testkit.MockOptions{Nodes: 2, VBuckets: 16, Buckets: []string{"default:secret"}},
		func(t *testing.T, m *testkit.CouchbaseMockServer) {
			var info struct {
				Memcached []string `json:"MEMCACHED"`
				Mock      []string `json:"MOCK"`
			}
			require.NoError(t, json.Unmarshal(m.Command("MOCKINFO", nil), &info))
			require.Contains(t, info.Mock, "OPFAIL")
			require.NotEmpty(t, info.Memcached)

			require.NotZero(t, m.RESTPort)
			tail := dial(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(m.RESTPort)))
			require.NoError(t, tail.Close())

			require.Len(t, m.Ports(""), 2)
			require.Equal(t, m.Ports(""), m.Ports("default"))
			_, err := m.TryCommand("GET_MCPORTS", map[string]any{"bucket": "nowhere"})
			require.ErrorContains(t, err, "No such bucket")

			c := dial(t, m.Addresses("default")[0])
			login := memd.Packet{Opcode: memd.OpSASLAuth, Key: []byte("PLAIN"), Value: []byte("\x00default\x00secret")}
			require.Equal(t, memd.StatusSuccess, ask(t, c, login).Status)
			require.Equal(t, memd.StatusSuccess, ask(t, c, memd.Packet{Opcode: memd.OpNoop}).Status)

			m.Command("OPFAIL", map[string]any{"code": 0x86, "count": 1})
			require.Equal(t, memd.StatusTmpFail, ask(t, c, memd.Packet{Opcode: memd.OpNoop}).Status)
			require.Equal(t, memd.StatusSuccess, ask(t, c, memd.Packet{Opcode: memd.OpNoop}).Status,
				"count 1 fails one request")

			m.Command("OPFAIL", map[string]any{"code": 0x86, "count": 0})
			m.Command("HICCUP", map[string]any{"msecs": 50, "offset": 10})
			began := time.Now()
			require.Equal(t, memd.StatusSuccess, ask(t, c, memd.Packet{Opcode: memd.OpNoop}).Status)
			require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)
			m.Command("HICCUP", map[string]any{"msecs": 0, "offset": 0})
			m.Command("TRUNCATE", map[string]any{"limit": 0})
			m.Command("FAILOVER", map[string]any{"idx": 1, "rebalance": true})
			m.Command("RESPAWN", map[string]any{"idx": 1})
			_, err = m.TryCommand("FAILOVER", nil)
			require.ErrorContains(t, err, "FAILOVER refused")
		})
}

func TestMemcachedSpeaksTheBinaryProtocol(t *testing.T) {
	s := testkit.Memcached(t, false)
	got := ask(t, dial(t, s.Addr), memd.Packet{Opcode: memd.OpNoop, Opaque: 7})
	require.Equal(t, memd.StatusSuccess, got.Status)
	require.EqualValues(t, 7, got.Opaque)
}

func TestMemcachedWantsALoginWhenAsked(t *testing.T) {
	s := testkit.Memcached(t, true)
	c := dial(t, s.Addr)
	require.Contains(t, string(ask(t, c, memd.Packet{Opcode: memd.OpSASLListMechs}).Value), "SCRAM-SHA-512")
	saslPlain := func(password string) memd.Status {
		value := "\x00" + testkit.MemcachedUser + "\x00" + password
		return ask(t, c, memd.Packet{Opcode: memd.OpSASLAuth, Key: []byte("PLAIN"), Value: []byte(value)}).Status
	}
	require.Equal(t, memd.StatusAuthError, saslPlain("wrong"))
	require.Equal(t, memd.StatusSuccess, saslPlain(testkit.MemcachedPassword))
}
