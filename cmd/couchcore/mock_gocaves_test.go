package main

import (
	"bufio"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The command serves the client that gocaves' --control-port names until it goes, and is gocaves under that name.
func TestMockIsGocaves(t *testing.T) {
	require.Equal(t, []string{"mock", "--gocaves", "--control-port=1"},
		arguments([]string{"/somewhere/gocaves-linux-amd64-v0.0.1-79", "--control-port=1"}))
	require.Equal(t, []string{"kv"}, arguments([]string{"/bin/couchcore", "kv"}))

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	code := make(chan int, 1)
	go func() { // until the client closes its connection
		code <- couchcore("mock", "--gocaves", "--control-port="+strconv.Itoa(l.Addr().(*net.TCPAddr).Port)).code
	}()
	nc, err := l.Accept()
	require.NoError(t, err)
	require.NoError(t, nc.SetDeadline(time.Now().Add(30*time.Second)))
	packets := bufio.NewReader(nc)
	for _, want := range []string{`{"type":"hello"}`, `"connstr":"couchbase://127.0.0.1:`} {
		got, err := packets.ReadString(0)
		require.NoError(t, err)
		require.Contains(t, got, want)
		if want == `{"type":"hello"}` {
			_, err = nc.Write([]byte("{\"type\":\"createcluster\",\"id\":\"c\"}\x00"))
			require.NoError(t, err)
		}
	}
	require.NoError(t, nc.Close())
	require.Equal(t, exitOK, <-code)

	help := couchcore("mock", "--gocaves", "--help")
	require.Equal(t, exitOK, help.code)
	require.Contains(t, help.stdout, "--mock-only")
	for _, args := range [][]string{{"--gocaves"}, {"--gocaves", "--link-addr=x"}, {"--nodes", "1", "--gocaves"}} {
		require.Equal(t, exitUsage, couchcore(append([]string{"mock"}, args...)...).code, args)
	}
}
