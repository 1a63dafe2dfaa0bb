package field_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// An account with application access, bucket_full_access of menelaus_roles.erl, may flush its bucket and no other; one
// that only reads may not.
func TestAnAccountWithApplicationAccessFlushesItsBucket_D199(t *testing.T) {
	c := mock.Start(t, mock.Bucket("a", 4), mock.Bucket("b", 4), mock.User("app", "pw", "a"),
		mock.Reader("reader", "pw", "a"))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	flush := func(account, bucket string) int {
		rq, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://"+c.Node(0).ManagementAddr()+"/pools/default/buckets/"+bucket+"/controller/doFlush", nil)
		require.NoError(t, err)
		rq.SetBasicAuth(account, "pw")
		answer, err := client.Do(rq)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	require.Equal(t, 403, flush("app", "b"))
	require.Equal(t, 403, flush("reader", "a"))
	require.Equal(t, 200, flush("app", "a"))
}
