package promises_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/views"
)

// BUCKET_ACCESS_ERROR is for key-value calls alone. A request to a service that goes by the bucket's map has none for
// that reason, and says so when its time is over.
func TestBucketAccessErrorIsNoReasonForARequestToAService(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		silence(m, 1)
		cl := client(t, m, func(cfg *core.Config) {
			cfg.Auth.Username, cfg.Auth.Password = "app",
				core.NewSecret("secret")
		})
		_, err := cl.Bucket("default").View(within(t, 2*time.Second), &views.Request{Design: "d", View: "v"})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.False(t, reasons(t, err).Has(retry.BucketAccessError))
		require.ErrorIs(t, err, cberr.BucketAccess, "the condition that is known")
		require.ErrorContains(t, err, `SELECT_BUCKET "default" answered 0x24`)
		require.NoError(t, calls["query"](within(t, time.Second), cl))
	}, mock.User("app", "secret", "other"))
}
