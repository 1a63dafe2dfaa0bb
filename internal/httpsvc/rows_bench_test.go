package httpsvc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/httpsvc"
)

// typicalRow is about as large, and as deep, as a document of the usual samples.
func typicalRow(i int) string {
	return fmt.Sprintf(`{"airline":{"id":%d,"type":"airline","name":"40-Mile Air \"%d\"","iata":"Q5","icao":"MLA","callsign":`+
		`"MILE-AIR","country":"United States","rating":%d.5,"active":true,"hubs":["ANC","FAI",null],"geo":{"lat":63.33,"lon":-142.95,`+
		`"alt":%d}},"text":"%s"}`, i, i, i%5, i%9000, strings.Repeat("lorem ipsum dolor ", 12))
}

// rowStream is an answer of so many bytes of rows, made while it is read. It is cut anywhere.
type rowStream struct {
	left int64
	rows []byte // whole rows, each with a comma ahead
	tail []byte
}

func newRowStream(size int64) *rowStream {
	e := &rowStream{left: size}
	for i := range 100 {
		e.rows = append(append(e.rows, ','), typicalRow(i)...)
	}
	e.tail = []byte(`{"requestID":"1","results":[` + typicalRow(0))
	return e
}

func (e *rowStream) Read(p []byte) (int, error) {
	if len(e.tail) == 0 {
		switch {
		case e.left > 0:
			e.tail = e.rows
			e.left -= int64(len(e.rows))
		case e.left > -1<<40:
			e.left = -1 << 40
			e.tail = []byte(`],"status":"success"}`)
		default:
			return 0, io.EOF
		}
	}
	n := copy(p, e.tail)
	e.tail = e.tail[n:]
	return n, nil
}

// readRows reads an answer to its end.
func readRows(tb testing.TB, src io.Reader) (rows int, bytes int64) {
	r := httpsvc.NewRowReader(src, "results", httpsvc.Limits{})
	for {
		row, ok := r.Next()
		if !ok {
			break
		}
		rows++
		bytes += int64(len(row))
	}
	require.NoError(tb, r.Err())
	return rows, bytes
}

// heapPeak runs f and gives the most that the heap held at any moment at which f looked.
func heapPeak(f func(look func())) uint64 {
	var m runtime.MemStats
	var peak uint64
	runtime.GC()
	f(func() {
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
	})
	return peak
}

// looking calls look for each megabyte that is read.
type looking struct {
	io.Reader
	n    int
	look func()
}

func (l *looking) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if l.n += n; l.n >= 1<<20 {
		l.n = 0
		l.look()
	}
	return n, err
}

// TestRowsStreamInConstantMemory: the heap does not grow with the number of rows.
func TestRowsStreamInConstantMemory(t *testing.T) {
	size := int64(64 << 20)
	if os.Getenv("COUCHCORE_LONG") != "" {
		size = 1 << 30
	}
	peak := heapPeak(func(look func()) {
		rows, bytes := readRows(t, &looking{Reader: newRowStream(size), look: look})
		require.Greater(t, rows, 1000)
		require.Greater(t, bytes, size*9/10)
	})
	require.Less(t, peak, uint64(32<<20))
}

// TestRowsStreamFastEnough: 100 MB/s on one core, or three times the standard library's decoder where the machine is
// slower. It measures, so it runs only when asked.
func TestRowsStreamFastEnough(t *testing.T) {
	if os.Getenv("COUCHCORE_LONG") == "" {
		t.Skip("COUCHCORE_LONG is not set")
	}
	var body bytes.Buffer
	_, err := io.Copy(&body, newRowStream(64<<20))
	require.NoError(t, err)
	speed := func(read func()) float64 {
		best := 0.0
		for range 3 {
			start := time.Now()
			read()
			best = max(best, float64(body.Len())/1e6/time.Since(start).Seconds())
		}
		return best
	}
	ours := speed(func() { readRows(t, bytes.NewReader(body.Bytes())) })
	theirs := speed(func() { decodeRows(t, bytes.NewReader(body.Bytes())) })
	t.Logf("%.0f MB/s, the decoder %.0f MB/s", ours, theirs)
	require.True(t, ours >= 100 || ours >= 3*theirs, "%.0f MB/s, the decoder %.0f MB/s", ours, theirs)
}

func BenchmarkRowReader(b *testing.B) {
	var body bytes.Buffer
	_, err := io.Copy(&body, newRowStream(8<<20))
	require.NoError(b, err)
	b.Run("reader", func(b *testing.B) {
		b.SetBytes(int64(body.Len()))
		b.ReportAllocs()
		for b.Loop() {
			readRows(b, bytes.NewReader(body.Bytes()))
		}
	})
	b.Run("decoder", func(b *testing.B) { // the standard library's, a row at a time, for comparison
		b.SetBytes(int64(body.Len()))
		b.ReportAllocs()
		for b.Loop() {
			decodeRows(b, bytes.NewReader(body.Bytes()))
		}
	})
}

func decodeRows(tb testing.TB, src io.Reader) (rows int) {
	d := json.NewDecoder(src)
	for range 5 { // { "requestID" "1" "results" [
		_, err := d.Token()
		require.NoError(tb, err)
	}
	for d.More() {
		var row json.RawMessage
		require.NoError(tb, d.Decode(&row))
		rows++
	}
	return rows
}
