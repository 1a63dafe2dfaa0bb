package handshake_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/observe"
)

// TestKeysOfManySaltsAreNotKept_D211: a server may ask with another salt at each login. The keys that are kept are
// bounded.
func TestKeysOfManySaltsAreNotKept_D211(t *testing.T) {
	var ring handshake.Keyring
	tell := func(n int) {
		salt := base64.StdEncoding.EncodeToString(fmt.Append(nil, n, strings.Repeat("s", 2500)))
		s := &teller{script: script{new(bytes.Reader)}, first: "r=$x,s=" + salt + ",i=1000", last: "v=$"}
		_, err := handshake.Connect(t.Context(), "peer:1", &handshake.Options{
			Mechanisms: []string{"SCRAM-SHA1"}, SCRAM: &ring,
			Dial: func(context.Context, string, string) (net.Conn, error) { return s, nil },
			Credentials: func(context.Context, string) (handshake.Credentials, error) {
				return handshake.Credentials{Username: "u", Password: observe.NewSecret("p")}, nil
			},
		})
		require.NoError(t, err)
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	tell(0)
	before := heap()
	for n := range 1000 {
		tell(n + 1)
	}
	require.Less(t, heap()-before, int64(2<<20))
	runtime.KeepAlive(&ring)
}
