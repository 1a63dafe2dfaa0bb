package mock_test

import (
	"testing"

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
