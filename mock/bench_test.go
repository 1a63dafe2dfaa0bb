package mock_test

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// BenchmarkGet is what the mock itself takes for a GET: 64 of them in one write, over the network in memory.
func BenchmarkGet(b *testing.B) {
	const together = 64
	c := mock.Start(b, mock.Virtual())
	r := login(b, c, baseFeatures...)
	key := []byte("\x00bench")
	vb := mock.VBucketOf(key[1:], 64)
	set := memd.Packet{Opcode: memd.OpSet, VBucket: vb, Key: key, Extras: make([]byte, 8), Value: make([]byte, 256)}
	require.Equal(b, memd.StatusSuccess, r.call(set).Status)
	gets := make([]memd.Packet, together)
	for i := range gets {
		gets[i] = memd.Packet{Opcode: memd.OpGet, VBucket: vb, Key: key}
	}
	b.ReportAllocs()
	for b.Loop() {
		r.send(gets...)
		for range gets {
			if _, err := r.read(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*together), "ns/get")
}

// BenchmarkStart is what it takes to start a cluster of four nodes and to close it.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		c, err := mock.New(mock.Virtual(), mock.Nodes(4))
		require.NoError(b, err)
		require.NoError(b, c.Close())
	}
}

// BenchmarkGetsOverLoopback is the rate of GETs of 256 bytes by four connections with 64 in flight each, client
// included. BenchmarkEchoOverLoopback is that of a server that only sends back as many bytes.
func BenchmarkGetsOverLoopback(b *testing.B) {
	c := mock.Start(b, mock.VBuckets(64))
	key := []byte("\x00bench")
	vb := mock.VBucketOf(key[1:], 64)
	set := memd.Packet{Opcode: memd.OpSet, VBucket: vb, Key: key, Extras: make([]byte, 8), Value: make([]byte, 256)}
	first := login(b, c, baseFeatures...)
	require.Equal(b, memd.StatusSuccess, first.call(set).Status)
	get, err := (&memd.Packet{Magic: memd.MagicReq, Opcode: memd.OpGet, VBucket: vb, Key: key}).AppendTo(nil)
	require.NoError(b, err)
	answer := memd.HeaderLen + 4 + 256
	var conns []net.Conn
	for range 4 {
		conns = append(conns, login(b, c, baseFeatures...).nc)
	}
	exchange(b, conns, get, answer)
}

func BenchmarkEchoOverLoopback(b *testing.B) {
	request, answer := make([]byte, 30), make([]byte, memd.HeaderLen+4+256)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	var conns []net.Conn
	for range 4 {
		near, err := net.Dial("tcp", l.Addr().String())
		require.NoError(b, err)
		far, err := l.Accept()
		require.NoError(b, err)
		go func() { // until the client closes its end
			defer far.Close()
			in, out := make([]byte, 64<<10), bytes.Repeat(answer, 64<<10/len(request)+1)
			had := 0
			for {
				n, err := far.Read(in)
				if err != nil {
					return
				}
				had += n
				if _, err := far.Write(out[:had/len(request)*len(answer)]); err != nil {
					return
				}
				had %= len(request)
			}
		}()
		defer near.Close()
		conns = append(conns, near)
	}
	exchange(b, conns, request, len(answer))
}

// exchange sends requests, 64 at once on each connection, and reads answers of a known length.
func exchange(b *testing.B, conns []net.Conn, request []byte, answer int) {
	const together = 64
	batch := bytes.Repeat(request, together)
	var group sync.WaitGroup
	b.ResetTimer()
	for _, nc := range conns {
		require.NoError(b, nc.SetDeadline(time.Time{}))
		group.Go(func() {
			in := make([]byte, answer*together)
			for range b.N/together/len(conns) + 1 {
				if _, err := nc.Write(batch); err != nil {
					b.Error(err)
					return
				}
				if _, err := io.ReadFull(nc, in); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

// BenchmarkMillionDocuments is what a million documents of 256 bytes take, in MiB of heap.
func BenchmarkMillionDocuments(b *testing.B) {
	for b.Loop() {
		c := mock.Start(b, mock.Replicas(0))
		r := login(b, c, baseFeatures...)
		require.NoError(b, r.nc.SetDeadline(time.Time{}))
		require.NoError(b, c.LimitApplyLog("default", 16384)) // as the command does
		heap := func() float64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return float64(m.HeapInuse) / (1 << 20)
		}
		before, value, sets := heap(), make([]byte, 256), make([]memd.Packet, 500)
		for i := 0; i < 1_000_000; i += len(sets) {
			for j := range sets {
				key := []byte("\x00" + strconv.Itoa(i+j))
				sets[j] = memd.Packet{
					Opcode: memd.OpSet, VBucket: mock.VBucketOf(key[1:], 64), Key: key, Extras: make([]byte, 8),
					Value: value,
				}
			}
			r.send(sets...)
			for range sets {
				if _, err := r.read(); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(heap()-before, "MiB")
	}
}
