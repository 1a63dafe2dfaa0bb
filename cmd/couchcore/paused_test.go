package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

// An output that is not read, as a terminal's that was paused, does not hold up the clients of the proxy.
func TestAPausedOutputHoldsNoCallUp_D192(t *testing.T) {
	for name, many := range map[string]int{"top": 50, "packets": mostUnshown} {
		t.Run(name, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(1), mock.VBuckets(16))
			in, stdin := io.Pipe()
			out, stdout := io.Pipe()
			code := make(chan int, 1)
			args := []string{name, "--node", m.Node(0).Addr(), "--json", "--exit-on-stdin-close"}
			if name == "top" {
				args = append(args, "--interval", "10ms")
			}
			go func() {
				code <- run(args, in, stdout, io.Discard, func(string) string { return "" })
				_ = stdout.Close()
			}()
			lines := bufio.NewScanner(out)
			require.True(t, lines.Scan())
			var ready struct{ Listening string }
			require.NoError(t, json.Unmarshal(lines.Bytes(), &ready))
			cfg, err := core.ParseConnString("couchbase://" + ready.Listening)
			require.NoError(t, err)
			cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
			c, err := core.Open(t.Context(), cfg)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			keys := make([][]byte, many)
			for i := range keys {
				keys[i] = []byte("k")
			}
			time.Sleep(50 * time.Millisecond) // a table is being written
			_, err = kv.Do(ctx, c.Bucket("default"), kv.Upsert{Key: keys[0], Common: kv.Common{Timeout: time.Minute}})
			require.NoError(t, err)
			for _, r := range kv.GetMulti(ctx, c.Bucket("default"), kv.Common{Timeout: time.Minute}, keys) {
				require.NoError(t, r.Err)
			}
			require.NoError(t, c.Close())

			noted := make(chan bool, 1)
			go func() { // ends with the command
				found := false
				for lines.Scan() {
					found = found || strings.Contains(lines.Text(), "packets are not shown, because the output is")
				}
				noted <- found
			}()
			require.NoError(t, stdin.Close())
			require.Equal(t, exitOK, <-code)
			require.Equal(t, name == "packets", <-noted)
		})
	}
}
