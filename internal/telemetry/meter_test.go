package telemetry

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func meter(known bool) *Meter {
	m := NewMeter("agent", func(Where) (Labels, bool) {
		return Labels{Node: "n", UUID: "u"}, known
	})
	m.on.Store(true)
	return m
}

// The bounds of each histogram are inclusive, and its buckets cumulative.
func TestHistograms(t *testing.T) {
	m := meter(true)
	c := m.Of(Where{KV, "n:1", "b"})
	for _, took := range []time.Duration{0, ms, ms + 1, 10 * ms, 2500 * ms, 2500*ms + 1, time.Hour} {
		c.Answered(Mutation, took)
	}
	labels := `agent="agent",node="n",node_uuid="u",bucket="b"} `
	require.Equal(t, []string{
		"sdk_kv_r_total{" + labels + "7",
		`sdk_kv_mutation_nondurable_duration_milliseconds_bucket{le="1",` + labels + "2",
		`sdk_kv_mutation_nondurable_duration_milliseconds_bucket{le="10",` + labels + "4",
		`sdk_kv_mutation_nondurable_duration_milliseconds_bucket{le="100",` + labels + "4",
		`sdk_kv_mutation_nondurable_duration_milliseconds_bucket{le="500",` + labels + "4",
		`sdk_kv_mutation_nondurable_duration_milliseconds_bucket{le="1000",` + labels + "4",
		`sdk_kv_mutation_nondurable_duration_milliseconds_bucket{le="2500",` + labels + "5",
		`sdk_kv_mutation_nondurable_duration_milliseconds_bucket{le="+Inf",` + labels + "7",
		"sdk_kv_mutation_nondurable_duration_milliseconds_sum{" + labels + "3605012",
		"sdk_kv_mutation_nondurable_duration_milliseconds_count{" + labels + "7", "",
	}, strings.Split(string(m.report().text), "\n"))
}

// What is counted between the making of a report and its end is in the next one, microseconds included.
func TestReportsTakeWhatTheyHave(t *testing.T) {
	m := meter(true)
	c := m.Of(Where{Query, "n:1", ""})
	c.Answered(Retrieval, 600*time.Microsecond)
	first := m.report()
	c.Answered(Retrieval, 600*time.Microsecond)
	c.Unanswered(true)
	first.sent()
	second := m.report()
	require.Contains(t, string(first.text), `_sum{agent="agent",node="n",node_uuid="u"} 0`)
	require.Contains(t, string(second.text), `_sum{agent="agent",node="n",node_uuid="u"} 1`)
	require.Contains(t, string(second.text), `sdk_query_r_total{agent="agent",node="n",node_uuid="u"} 2`)
	require.Contains(t, string(second.text), `sdk_query_r_timedout{agent="agent",node="n",node_uuid="u"} 1`)
	second.sent()
	require.Empty(t, m.report().text)
}

// Memory is bounded, and a node that has left is forgotten once there is nothing to tell of it.
func TestCountersAreForgotten(t *testing.T) {
	m := meter(false)
	gone := m.Of(Where{KV, "gone:1", "b"})
	gone.Answered(Retrieval, ms)
	r := m.report()
	require.Contains(t, string(r.text), `node="gone",bucket="b"`)
	r.sent()
	require.Empty(t, m.report().text)
	gone.Answered(Retrieval, ms) // a connection still counts
	r = m.report()
	require.Contains(t, string(r.text), `node="gone",bucket="b"`)
	r.sent()
	gone.Release()
	require.Empty(t, m.report().text)
	require.Empty(t, m.m)
	for i := range mostCounters + 1 {
		require.Equal(t, i < mostCounters, m.Of(Where{KV, fmt.Sprint("n:", i), "b"}) != nil)
	}
	var none *Meter
	none.Of(Where{}).Unanswered(true)
	require.False(t, none.On())
}

func TestCountingIsSafeForSeveral(t *testing.T) {
	m := meter(true)
	c := m.Of(Where{KV, "n:1", "b"})
	var wg sync.WaitGroup
	total := int64(0)
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				c.Answered(Kind(i%int(kindCount)), time.Duration(i)*ms)
			}
		})
	}
	take := func() {
		r := m.report()
		for _, p := range r.parts {
			total += p.v.total
		}
		r.sent()
	}
	for range 20 {
		take()
	}
	wg.Wait()
	take()
	require.Equal(t, int64(4000), total)
}

// FuzzReply: whatever a server sends is answered with a status, and takes nothing off the counters before it was sent.
func FuzzReply(f *testing.F) {
	for _, s := range []string{"", "\x00", "\x01", "\x00x", "\xff"} {
		f.Add([]byte(s), "n:1", "b", "agent")
	}
	f.Fuzz(func(t *testing.T, command []byte, addr, bucket, agent string) {
		m := NewMeter(agent, func(Where) (Labels, bool) { return Labels{addr, bucket, agent}, true })
		m.on.Store(true)
		m.Of(Where{KV, addr, bucket}).Answered(Retrieval, ms)
		text, r := m.reply(command)
		if len(command) == 0 || command[0] != 0 {
			require.Equal(t, []byte{statusUnknown}, text)
			require.Empty(t, r.parts)
			return
		}
		require.Zero(t, text[0])
		lines := strings.Split(strings.TrimSuffix(string(text[1:]), "\n"), "\n")
		require.Len(t, lines, 10, "no label adds a line")
		for _, line := range lines {
			require.Equal(t, 1, strings.Count(line, "{"))
			require.Equal(t, 1, strings.Count(line, "}"))
			require.Zero(t, strings.Count(line, `"`)%2)
		}
		r.sent()
		require.Empty(t, m.report().text)
	})
}

func BenchmarkAnswered(b *testing.B) {
	c := meter(true).Of(Where{KV, "n:1", "b"})
	b.ReportAllocs()
	for b.Loop() {
		c.Answered(Retrieval, 3*ms)
	}
}
