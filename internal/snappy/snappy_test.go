package snappy_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	golden "github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/snappy"
)

// decoded is the value of a block in memory of its length. What is behind that memory must stay as it is.
func decoded(block []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	memory := bytes.Repeat([]byte{0xa5}, int(n)+32)
	if err = snappy.Decode(memory[:n], bytes.Clone(block)[:len(block):len(block)]); err == nil {
		return memory[:n], fence(memory[n:])
	}
	return nil, errors.Join(err, fence(memory[n:]))
}

var errBeyond = errors.New("wrote beyond its memory")

func fence(b []byte) error {
	if len(bytes.Trim(b, "\xa5")) > 0 {
		return errBeyond
	}
	return nil
}

// encoder is what all tests use: what one leaves in it must not matter to another.
var encoder snappy.Encoder

func literalOf(text string) string { return string([]byte{byte(len(text)-1) << 2}) + text }

func copy1(length, offset int) string {
	return string([]byte{byte(offset>>8<<5 | (length-4)<<2 | 1), byte(offset)})
}

func copy2(length, offset int) string {
	return string([]byte{byte((length-1)<<2 | 2), byte(offset), byte(offset >> 8)})
}

func copy4(length, offset int) string {
	return string(binary.LittleEndian.AppendUint32([]byte{byte((length-1)<<2 | 3)}, uint32(offset)))
}

func block(length int, elements ...string) []byte {
	return append(binary.AppendUvarint(nil, uint64(length)), strings.Join(elements, "")...)
}

// Each form of an element, by hand, and what another implementation makes of it.
func TestForms(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 5000)
	for name, c := range map[string]struct {
		block []byte
		want  string
	}{
		"empty":                     {block(0), ""},
		"literal of one byte":       {block(1, "\x00a"), "a"},
		"literal of 60":             {block(60, literalOf(long[:60])), long[:60]},
		"literal, one byte length":  {block(61, "\xf0\x3c", long[:61]), long[:61]},
		"literal, two byte length":  {block(300, "\xf4\x2b\x01", long[:300]), long[:300]},
		"literal, three bytes":      {block(70000, "\xf8\x6f\x11\x01", long[:70000]), long[:70000]},
		"literal, four bytes":       {block(70000, "\xfc\x6f\x11\x01\x00", long[:70000]), long[:70000]},
		"short literal, long form":  {block(2, "\xfc\x01\x00\x00\x00ab"), "ab"},
		"two literals":              {block(4, literalOf("ab"), literalOf("cd")), "abcd"},
		"the example of the format": {block(7, literalOf("xab"), copy1(4, 2)), "xababab"},
		"copy of one byte":          {block(3, literalOf("ab"), copy2(1, 2)), "aba"},
		"copy of 64":                {block(65, literalOf("a"), copy2(64, 1)), strings.Repeat("a", 65)},
		"copy, four byte offset":    {block(6, literalOf("abc"), copy4(3, 3)), "abcabc"},
		"copy, offset of 11 bits": {
			block(2047+4, "\xf4\xfe\x07", long[:2047], copy1(4, 2047)), long[:2047] + long[:4],
		},
		"copy, offset of 16 bits": {
			block(65535+4, "\xf4\xfe\xff", long[:65535], copy2(4, 65535)), long[:65535] + long[:4],
		},
		"copy, offset of 17 bits": {
			block(70000+60, "\xf8\x6f\x11\x01", long[:70000], copy4(60, 70000)), long[:70000] + long[:60],
		},
	} {
		got, err := decoded(c.block)
		require.NoError(t, err, name)
		require.Equal(t, c.want, string(got), name)
		theirs, err := golden.Decode(nil, c.block)
		require.NoError(t, err, name)
		require.Equal(t, c.want, string(theirs), name)
		for cut := range min(len(c.block), 100) { // no beginning is a block
			_, err := decoded(c.block[:cut])
			var corrupt *snappy.CorruptError
			require.ErrorAs(t, err, &corrupt, "%s cut to %d", name, cut)
		}
	}
}

// Copies whose bytes overlap themselves, of each length, with and without room behind them.
func TestOverlappingCopies(t *testing.T) {
	seed := "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
	for offset := 1; offset <= 60; offset++ {
		for length := 1; length <= 64; length++ {
			for _, tail := range []string{"", "!", "12345678", strings.Repeat("-", 30)} {
				want := []byte(seed)
				for range length {
					want = append(want, want[len(want)-offset])
				}
				elements := []string{literalOf(seed), copy2(length, offset)}
				if tail != "" {
					elements, want = append(elements, literalOf(tail)), append(want, tail...)
				}
				got, err := decoded(block(len(want), elements...))
				require.NoError(t, err, "offset %d, length %d", offset, length)
				require.Equal(t, string(want), string(got), "offset %d, length %d", offset, length)
			}
		}
	}
}

func TestCorruptBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		block []byte
		at    int
		why   string
	}{
		"nothing":                  {nil, 0, "varint"},
		"length without end":       {[]byte{0x80, 0x80}, 0, "varint"},
		"length of 33 bits":        {[]byte{0xff, 0xff, 0xff, 0xff, 0x1f, 0}, 0, "varint"},
		"length of six bytes":      {[]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0}, 0, "varint"},
		"no elements":              {block(5), 1, "shorter"},
		"too little":               {block(5, literalOf("ab")), 4, "shorter"},
		"literal is too long":      {block(1, literalOf("ab")), 1, "longer"},
		"literal is cut":           {block(5, "\x10abc"), 1, "ends within"},
		"literal has no length":    {block(5, "\xf0"), 1, "ends within"},
		"literal has half of it":   {block(5, "\xf4\x01"), 1, "ends within"},
		"literal of 4 GiB":         {block(5, "\xfc\xff\xff\xff\xffabc"), 1, "ends within"},
		"copy at the beginning":    {block(4, copy1(4, 1)), 1, "before the first"},
		"copy at offset zero":      {block(5, literalOf("a"), copy1(4, 0)), 3, "before the first"},
		"copy2 at offset zero":     {block(5, literalOf("a"), copy2(4, 0)), 3, "before the first"},
		"copy4 at offset zero":     {block(5, literalOf("a"), copy4(4, 0)), 3, "before the first"},
		"copy from before":         {block(5, literalOf("a"), copy1(4, 2)), 3, "before the first"},
		"copy4 from far before":    {block(5, literalOf("a"), copy4(4, -1)), 3, "before the first"},
		"copy4 at the 31st bit":    {block(5, literalOf("a"), copy4(4, -1<<31)), 3, "before the first"},
		"copy is too long":         {block(4, literalOf("a"), copy1(4, 1)), 3, "longer"},
		"copy1 is cut":             {block(5, literalOf("a"), copy1(4, 1)[:1]), 3, "ends within"},
		"copy2 is cut":             {block(5, literalOf("a"), copy2(4, 1)[:2]), 3, "ends within"},
		"copy4 is cut":             {block(5, literalOf("a"), copy4(4, 1)[:4]), 3, "ends within"},
		"an element after the end": {block(1, literalOf("a"), literalOf("b")), 3, "longer"},
	} {
		_, err := decoded(c.block)
		var corrupt *snappy.CorruptError
		require.ErrorAs(t, err, &corrupt, name)
		require.NotErrorIs(t, err, errBeyond, name)
		require.Equal(t, c.at, corrupt.At, name)
		require.Contains(t, corrupt.Error(), c.why, name)
		_, err = golden.Decode(nil, c.block)
		require.Equal(t, name != "length of six bytes", err != nil, name) // more than the format needs
	}
	require.ErrorContains(t, snappy.Decode(make([]byte, 3), block(2, literalOf("ab"))), "not that of the memory")
	n, err := snappy.DecodedLen([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	require.NoError(t, err)
	require.Equal(t, int64(1<<32-1), n, "on every platform")
}

// values are of kinds and lengths at which the encoder does something else.
func values() [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 300<<10)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	var all [][]byte
	for _, n := range []int{
		0, 1, 3, 4, 11, 12, 15, 16, 17, 31, 32, 59, 60, 61, 62, 64, 65, 67, 68, 255, 256, 257, 300, 1000, 2047, 2048,
		4096, 65535, 65536, 65537, 65600, 70000, 131072, 300 << 10,
	} {
		all = append(all, noise[:n], bytes.Repeat([]byte("a"), n), bytes.Repeat([]byte("abcde"), n/5), document(n))
	}
	var costly []byte // literals with two bytes before them, and copies that save but one
	for i := 160; i+62 < len(noise); i += 62 {
		word := i / 62 % 40 * 4
		costly = append(append(costly, noise[i:i+62]...), noise[word:word+4]...)
	}
	all = append(all, costly)
	half := append(bytes.Clone(noise[:65536]), noise[:65536]...) // the same again, just too far away
	return append(all, half, append(bytes.Clone(noise[:65535]), noise[:65535]...))
}

func TestRoundTrip(t *testing.T) {
	for _, want := range values() {
		dst := make([]byte, 0, snappy.MaxEncodedLen(len(want)))
		got := encoder.Append(dst, want)
		require.Same(t, &dst[:1][0], &got[0])
		theirs, err := golden.Decode(nil, got)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, theirs))
		require.Equal(t, got, encoder.Append([]byte("head"), want)[4:], "the same value gives the same block")
		for _, b := range [][]byte{got, golden.Encode(nil, want)} {
			ours, err := decoded(b)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, ours))
		}
	}
}

// The blocks of JSON are as small as another implementation's, and those of noise not larger than the noise and its
// heads.
func TestBlocksAreSmall(t *testing.T) {
	for _, n := range []int{256, 1000, 2048, 16 << 10, 64 << 10, 300 << 10} {
		ours, theirs := len(encoder.Append(nil, document(n))), len(golden.Encode(nil, document(n)))
		require.LessOrEqual(t, ours, theirs+theirs/50, "of %d bytes", n)
	}
	require.Less(t, len(encoder.Append(nil, bytes.Repeat([]byte("a"), 1<<20))), 50000)
}

// Neither direction allocates, and a new goroutine needs little stack.
func TestMemory(t *testing.T) {
	for _, n := range sizes {
		src := document(n)
		dst, out := make([]byte, 0, snappy.MaxEncodedLen(n)), make([]byte, n)
		packed := encoder.Append(nil, src)
		require.Zero(t, testing.AllocsPerRun(200, func() {
			dst = encoder.Append(dst[:0], src)
			if err := snappy.Decode(out, packed); err != nil {
				panic(err)
			}
		}), "%d bytes", n)
	}
	const many = 500
	src := document(2048)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var packed, all sync.WaitGroup
	hold := make(chan struct{})
	packed.Add(many)
	for range many {
		all.Go(func() {
			var dst [1]byte
			encoder.Append(dst[:0], src[:15])
			encoder.Append(make([]byte, 0, 4096), src)
			packed.Done()
			<-hold
		})
	}
	packed.Wait()
	runtime.ReadMemStats(&after)
	close(hold)
	all.Wait()
	require.Less(t, (int64(after.StackInuse)-int64(before.StackInuse))/many, int64(10<<10), "stack of a goroutine")
}

// Many goroutines share the tables.
func TestManyAtOnce(t *testing.T) {
	var all sync.WaitGroup
	failed := make(chan error, 8)
	for g := range 8 {
		all.Go(func() {
			for i := range 50 {
				src := document(100 + 997*g + 31*i)
				got, err := decoded(encoder.Append(nil, src))
				if err != nil || !bytes.Equal(src, got) {
					failed <- fmt.Errorf("%d bytes: %w", len(src), err)
					return
				}
			}
		})
	}
	all.Wait()
	require.Empty(t, failed)
}

func FuzzDecode(f *testing.F) {
	f.Add(block(7, literalOf("xab"), copy1(4, 2)))
	f.Add(block(70, literalOf("abc"), copy4(64, 3), copy2(3, 1)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0})
	f.Add(golden.Encode(nil, document(1000)))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := snappy.DecodedLen(b)
		size, theirErr := golden.DecodedLen(b)
		if errors.Is(theirErr, golden.ErrTooLarge) {
			return // on a platform of 32 bits
		}
		_, used := binary.Uvarint(b)
		if (err == nil) != (theirErr == nil && used <= 5) || err == nil && n != int64(size) {
			t.Fatal(n, err, size, theirErr)
		}
		if err != nil || n > 1<<20 {
			return
		}
		got, err := decoded(b)
		theirs, theirErr := golden.Decode(nil, b)
		if (err == nil) != (theirErr == nil) || !bytes.Equal(got, theirs) && err == nil {
			t.Fatalf("%q %v, theirs %q %v", got, err, theirs, theirErr)
		}
		var corrupt *snappy.CorruptError
		if err != nil && (!errors.As(err, &corrupt) || errors.Is(err, errBeyond) || corrupt.At > len(b)) {
			t.Fatal(err)
		}
	})
}

func FuzzAppend(f *testing.F) {
	for _, v := range values() {
		if len(v) < 5000 {
			f.Add(v, uint16(1))
		}
	}
	f.Add([]byte("0123456789abcdef"), uint16(5000))
	f.Fuzz(func(t *testing.T, part []byte, times uint16) {
		src := bytes.Repeat(part, min(int(times), 1+1<<18/(len(part)+1)))
		memory := bytes.Repeat([]byte{0xa5}, snappy.MaxEncodedLen(len(src))+32)
		room := len(memory) - 32
		b := encoder.Append(memory[:0:room], src)
		if &b[0] != &memory[0] || fence(memory[room:]) != nil {
			t.Fatal("beyond its memory")
		}
		if !bytes.Equal(b, encoder.Append(nil, src)) {
			t.Fatal("another block")
		}
		theirs, err := golden.Decode(nil, b)
		if err != nil || !bytes.Equal(src, theirs) {
			t.Fatal("another implementation reads it otherwise", err)
		}
		if ours, err := decoded(b); err != nil || !bytes.Equal(src, ours) {
			t.Fatal("it is not read again", err)
		}
	})
}
