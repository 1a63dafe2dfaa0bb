package field_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// A call is retried, and its vbucket moves to a node that cannot do what it asks for. Its error says how often it was
// tried before.
func TestAFeatureThatIsMissingAfterRetries_D204(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Replicas(0), mock.Bucket("default", 1), mock.Virtual(),
			mock.NodeVersion(1, "6.6"))
		b := openMock(t, m)
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.Status(memd.StatusTmpFail))
		f := kv.Start(t.Context(), b, kv.Upsert{
			Common: kv.Common{Retry: retry.BestEffort{}, Timeout: 10 * time.Second}, Key: []byte("k"),
			PreserveExpiry: true,
		})
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, m.MoveVBucket("default", 0, 1))
		_, err := f.Wait(within(t, 10*time.Second))
		require.ErrorIs(t, err, cberr.FeatureNotAvailable)
		var e *kv.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, m.Frames(memd.OpSet), e.Retry.Attempts())
		require.Positive(t, e.Retry.Retries())
		require.ErrorContains(t, err, "KV_TEMPORARY_FAILURE")
	})
}
