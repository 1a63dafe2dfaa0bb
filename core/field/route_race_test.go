package field_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Calls whose deadline passes in the moment in which the first map, a connection or room takes them on their way: the
// goroutine that makes their error reads nothing that the one that sends them writes. The race detector is the judge.
func TestCallsThatEndWhileTheyAreSent_D187(t *testing.T) {
	const calls, span = 1000, 400 * time.Millisecond
	value := make([]byte, 1024) // is compressed on its way
	for n := range 2 {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16), mock.Virtual())
		held := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGetClusterConfig}}, mock.Hold())
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
		cfg.Net.Dial = m.Dial
		b := openConfig(t, cfg).Bucket("default")
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				limit := 100*time.Millisecond + time.Duration(i)*span/calls
				in := kv.Common{Timeout: limit, Scope: "_default", Collection: "_default"}
				key := fmt.Appendf(nil, "k-%d-%d", n, i)
				_, err := kv.Do(context.Background(), b, kv.Upsert{Common: in, Key: key, Value: value})
				require.True(t, err == nil || errors.Is(err, cberr.Timeout), "%v", err)
			})
		}
		time.Sleep(span / 2) // some have ended, others are about to
		held.Remove()
		held.Release()
		wg.Wait()
	}
}
