package snappy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	golden "github.com/golang/snappy"

	"github.com/couchcore/couchcore/internal/snappy"
)

// document is JSON of n bytes, as applications keep it.
func document(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	cities := []string{"Paris", "London", "San Francisco", "Berlin", "Zagreb", "Lima"}
	b := []byte(`{"type":"route","items":[`)
	for i := 0; len(b) <= n; i++ {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"id":%d,"airline":"airline_%d","from":%q,"to":%q,"stops":%d,"distance":%.4f,"active":%t}`,
			r.IntN(1<<20), r.IntN(5000), cities[r.IntN(6)], cities[r.IntN(6)], r.IntN(3), r.Float64()*9000,
			r.IntN(2) == 0)
	}
	return append(b[:max(n-3, 0)], `"]}`...)
}

var sizes = []int{256, 2 << 10, 64 << 10}

func BenchmarkAppend(b *testing.B) {
	for _, n := range sizes {
		src := document(n)
		dst := make([]byte, golden.MaxEncodedLen(len(src)))
		for name, do := range map[string]func() []byte{
			"own":    func() []byte { return encoder.Append(dst[:0], src) },
			"golang": func() []byte { return golden.Encode(dst, src) },
		} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				var out []byte
				for b.Loop() {
					out = do()
				}
				b.ReportMetric(float64(len(out))/float64(len(src)), "ratio")
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, n := range sizes {
		dst, block := make([]byte, n), golden.Encode(nil, document(n))
		for name, do := range map[string]func() error{
			"own":    func() error { return snappy.Decode(dst, block) },
			"golang": func() error { _, err := golden.Decode(dst, block); return err },
		} {
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				for b.Loop() {
					if err := do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
