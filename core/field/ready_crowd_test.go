package field_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
)

// TestReadinessMayBeAskedWhileNodesConnect_D181: again and again, while one node after the other connects.
func TestReadinessMayBeAskedWhileNodesConnect_D181(t *testing.T) {
	m := mock.Start(t, mock.Nodes(16), mock.Virtual(), mock.Bucket("default", 64))
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for range 30 {
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
		cfg.Net.Dial = m.Dial
		b := openConfig(t, cfg).Bucket("default")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for ready := false; !ready; {
					ready = b.WaitReady(over) == nil
				}
			})
		}
		all.Wait()
	}
}
