package observe_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/observe"
)

func TestOrphanReportIsTheRFCsLine(t *testing.T) {
	var o observe.Slowest
	_, ok := o.Take()
	require.False(t, ok, "nothing gathered, no line")

	o.Add(observe.Request{
		Service: "kv", Operation: "upsert", OperationID: observe.OpaqueID(0x2f),
		LocalID:     "00A1B2C3D4E5F607/18CC8791579B567C",
		LocalSocket: "10.0.0.5:41000", RemoteSocket: "10.0.0.9:11210",
		Total: 612 * time.Millisecond, Encode: 12 * time.Microsecond,
		LastDispatch: 600100 * time.Microsecond, TotalDispatch: 600400 * time.Microsecond,
		LastServer: 41 * time.Microsecond, TotalServer: 41 * time.Microsecond, Timeout: 2500 * time.Millisecond,
	})
	r, ok := o.Take()
	require.True(t, ok)
	require.Equal(t, `{"kv":{"total_count":1,"top_requests":[{"total_duration_us":612000,"encode_duration_us":12,`+
		`"last_dispatch_duration_us":600100,"total_dispatch_duration_us":600400,"last_server_duration_us":41,`+
		`"total_server_duration_us":41,"operation_name":"upsert","last_local_id":"00A1B2C3D4E5F607/18CC8791579B567C",`+
		`"operation_id":"0x2f","last_local_socket":"10.0.0.5:41000","last_remote_socket":"10.0.0.9:11210","timeout_ms":2500}]}}`,
		string(r.JSON))
	require.EqualValues(t, 1, r.Total)
	_, ok = o.Take()
	require.False(t, ok, "Take forgets")
}

// The report that docs/observability.md shows is one that a client writes.
func TestTheGuideShowsAReport(t *testing.T) {
	var o observe.Slowest
	o.Add(observe.Request{
		Service: "kv", Operation: "upsert", OperationID: observe.OpaqueID(0x2f),
		LocalID: "00a1b2c3d4e5f607/0000000000000001", LocalSocket: "10.0.0.5:41000", RemoteSocket: "10.0.0.9:11210",
		Total: 612 * time.Millisecond, LastDispatch: 600100 * time.Microsecond,
		TotalDispatch: 600400 * time.Microsecond, LastServer: 41 * time.Microsecond,
		TotalServer: 41 * time.Microsecond, Timeout: 2500 * time.Millisecond,
	})
	r, ok := o.Take()
	require.True(t, ok)
	page, err := os.ReadFile("../../docs/observability.md")
	require.NoError(t, err)
	_, block, ok := strings.Cut(string(page), "```json\n")
	require.True(t, ok)
	block, _, _ = strings.Cut(block, "```")
	require.Equal(t, string(r.JSON), strings.ReplaceAll(block, "\n", ""))
}

func TestOrphanReportLeavesOutWhatIsNotKnown(t *testing.T) {
	var o observe.Slowest
	o.Add(observe.Request{Service: "kv", Operation: "get", Total: time.Second})
	r, _ := o.Take()
	require.Equal(t, `{"kv":{"total_count":1,"top_requests":[{"total_duration_us":1000000,"operation_name":"get"}]}}`,
		string(r.JSON))
}

func TestOrphansCountAllAndKeepTheSlowest(t *testing.T) {
	o := observe.Slowest{Sample: 3}
	for _, ms := range []int{5, 1, 9, 7, 3, 8, 2, 9} {
		o.Add(observe.Request{Service: "kv", Total: time.Duration(ms) * time.Millisecond})
	}
	o.Add(observe.Request{Service: "query", Total: time.Millisecond})
	r, _ := o.Take()
	require.EqualValues(t, 9, r.Total)
	var got map[string]struct {
		TotalCount  int `json:"total_count"`
		TopRequests []struct {
			Total int `json:"total_duration_us"`
		} `json:"top_requests"`
	}
	require.NoError(t, json.Unmarshal(r.JSON, &got))
	require.Equal(t, 8, got["kv"].TotalCount)
	require.Equal(t, 1, got["query"].TotalCount)
	var top []int
	for _, e := range got["kv"].TopRequests {
		top = append(top, e.Total)
	}
	require.Equal(t, []int{9000, 9000, 8000}, top)
}

func TestOrphansAreBoundedAndSafeForManyGoroutines(t *testing.T) {
	var o observe.Slowest
	var wg sync.WaitGroup
	var taken int64
	for g := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				o.Add(observe.Request{Service: "kv", Total: time.Duration(g*1000 + i)})
			}
		})
	}
	for range 10 {
		if r, ok := o.Take(); ok {
			taken += r.Total
		}
	}
	wg.Wait()
	if r, ok := o.Take(); ok {
		taken += r.Total
		require.LessOrEqual(t, len(r.JSON), 60*observe.ReportSample+60)
	}
	require.EqualValues(t, 4000, taken)
}

func TestAnOrphanThatIsNotKeptCostsNoMemory(t *testing.T) {
	var o observe.Slowest
	for range observe.ReportSample {
		o.Add(observe.Request{Service: "kv", Total: time.Second})
	}
	e := observe.Request{Service: "kv", Total: time.Millisecond}
	require.Zero(t, testing.AllocsPerRun(1000, func() { o.Add(e) }))
}

func ExampleSlowest() {
	var o observe.Slowest
	o.Add(observe.Request{Service: "kv", Operation: "get", OperationID: observe.OpaqueID(47), Total: 3 * time.Second})
	if r, ok := o.Take(); ok {
		fmt.Println(string(r.JSON))
	}
	// Output: {"kv":{"total_count":1,"top_requests":[{"total_duration_us":3000000,"operation_name":"get","operation_id":"0x2f"}]}}
}
