package mock_test

import (
	"bytes"
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// A journal has what came before it is answered: a line for each request, and one for each mutation.
func TestJournalHasRequestsAndMutations(t *testing.T) {
	var out bytes.Buffer // each answer was written after its lines
	c := mock.Start(t, mock.Bucket("default", 4), mock.Journal(&out))
	r := login(t, c, baseFeatures...)
	require.Equal(t, memd.StatusSuccess, r.call(storePacket(memd.OpSet, "k", "v1")).Status)
	require.Equal(t, memd.StatusKeyExists, r.call(storePacket(memd.OpAdd, "k", "v2")).Status)
	require.Equal(t, memd.StatusSuccess, r.call(getPacket("k")).Status)
	var got []string
	for line := range strings.Lines(out.String()) {
		var e mock.Entry
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		require.False(t, e.At.IsZero())
		require.Zero(t, e.Node)
		got = append(got, strings.Join([]string{e.What, e.Opcode, e.Key, e.Token}, " "))
	}
	require.Equal(t, []string{"received SET k v1", "applied SET k v1", "received ADD k v2", "received GET k "}, got)
}

// A mutation is in the journal when it is executed, though its answer takes its time: the process may be killed before.
func TestJournalDoesNotWaitForAnswers_D262(t *testing.T) {
	out := lines(make(chan string, 8))
	c := mock.Start(t, mock.Bucket("default", 4), mock.Journal(out))
	r := login(t, c, baseFeatures...)
	c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.DelayReply(time.Hour))
	r.send(storePacket(memd.OpSet, "k", "v"))
	require.Contains(t, <-out, mock.EntryReceived)
	require.Contains(t, <-out, mock.EntryApplied)
}

// lines are those of a journal.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// With fixed ports a cluster can be started again where it was.
func TestPortsAreFixed(t *testing.T) {
	free := mock.Start(t, mock.Bucket("default", 4))
	_, port, err := net.SplitHostPort(free.Node(0).ManagementAddr())
	require.NoError(t, err)
	require.NoError(t, free.Close())
	high, err := strconv.Atoi(port)
	require.NoError(t, err)
	first := 0
	for try := range 20 { // another program may have one of them
		first = 10000 + (high+try*28)%10000 // another package takes 20000 and up
		c, err := mock.New(mock.Nodes(2), mock.TLS(), mock.Ports(first))
		if err != nil {
			continue
		}
		require.NoError(t, c.Close())
		break
	}
	for range 2 {
		c, err := mock.New(mock.Nodes(2), mock.TLS(), mock.Ports(first))
		require.NoError(t, err)
		at := func(n int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(first+n)) }
		require.Equal(t, []string{at(0), at(1), at(8)}, []string{
			c.Node(0).ManagementAddr(), c.Node(0).Addr(),
			c.Node(0).TLSAddr(),
		})
		require.Equal(t, []string{at(14), at(15), at(21)}, []string{
			c.Node(1).ManagementAddr(), c.Node(1).Addr(),
			c.Node(1).ManagementTLSAddr(),
		})
		require.NoError(t, c.Close())
	}
	for _, n := range []int{-1, 65530} {
		_, err := mock.New(mock.Ports(n))
		require.ErrorContains(t, err, "ports")
	}
}
