package field_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/query"
)

func TestAQueryAgainstAScriptedService(t *testing.T) {
	c := services(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"results":[1],"status":"success"}`)
	})
	rows, err := c.Query(within(t, time.Second), &query.Request{Statement: "SELECT 1"})
	require.NoError(t, err)
	require.True(t, rows.Next())
	require.NoError(t, rows.Close())
}
