package mock_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
)

// A connection whose bucket is deleted breaks, and is told nothing before: else it would depend on the node's
// goroutines whether that still leaves.
func TestADeletedBucketIsNotAnnounced(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 4), mock.Bucket("other", 4), mock.Virtual())
			cfg, err := core.ParseConnString(m.ConnString())
			require.NoError(t, err)
			cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = mock.DefaultUser, core.NewSecret(mock.DefaultPassword),
				m.Dial
			c, err := core.Open(t.Context(), cfg)
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, c.Bucket("default").WaitReady(t.Context()))
			require.NoError(t, c.Bucket("other").WaitReady(t.Context()))
			links := m.Network().Links()
			require.Len(t, links, 2)
			before := []int64{links[0].Down().Written(), links[1].Down().Written()}
			require.NoError(t, m.DropBucket("default"))
			synctest.Wait()
			require.Equal(t, before[0], links[0].Down().Written())
			require.Greater(t, links[1].Down().Written(), before[1])
		})
	}
}
