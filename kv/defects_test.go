package kv_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// scanItem is a document as a scan's answer has it.
func scanItem(key, value []byte) []byte {
	b := append(memd.AppendLEB128(make([]byte, 25), uint32(len(key))), key...)
	return append(memd.AppendLEB128(b, uint32(len(value))), value...)
}

// D9: the loop over a scan's items takes something off with each turn, whatever the bytes are, or fails.
func TestEveryTurnOverAScansItemsTakesBytes_D9(t *testing.T) {
	good := scanItem([]byte("k"), []byte("value"))
	defer bounded()()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "value")
		if rapid.Bool().Draw(t, "spoiled") {
			value = append(append([]byte{}, good...), good...)
			value = value[:rapid.IntRange(0, len(value)).Draw(t, "cut")]
			if len(value) > 0 {
				value[rapid.IntRange(0, len(value)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			}
		}
		least, extras := 1, make([]byte, 4)
		if rapid.Bool().Draw(t, "documents") {
			least, extras[3] = 27, 1
		}
		res, err := kv.Do(t.Context(), answering(memd.Packet{Extras: extras, Value: value}), kv.RangeScanContinue{})
		if err != nil {
			require.Empty(t, res.Items)
			return
		}
		require.LessOrEqual(t, len(res.Items)*least, len(value))
		require.Equal(t, len(value) > 0, len(res.Items) > 0)
	})
}

// bounded ends the process when it takes much memory until the function that it gives is called: a loop that stands
// still and appends would take all there is.
func bounded() (end func()) {
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		used := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				if metrics.Read(used); used[0].Value.Uint64() > 1<<30 {
					panic("a loop takes a gigabyte and does not end")
				}
			}
		}
	})
	return func() {
		close(over)
		wg.Wait()
	}
}

// D10: what a scan gives is in memory of its own and its exact size: who keeps the keys of large documents keeps no
// document.
func TestAKeyKeepsNoAnswerAlive_D10(t *testing.T) {
	var documents []byte
	for i := range 100 {
		documents = append(documents, scanItem(fmt.Appendf(nil, "key-%d", i), make([]byte, 10<<10))...)
	}
	var kept [][]byte
	before := heap()
	for range 20 {
		res, err := kv.Do(t.Context(), answering(memd.Packet{
			Extras: []byte{0, 0, 0, 1},
			Value:  bytes.Clone(documents),
		}), kv.RangeScanContinue{})
		require.NoError(t, err)
		require.Len(t, res.Items, 100)
		for _, it := range res.Items {
			require.LessOrEqual(t, cap(it.Value), 11<<10)
			kept = append(kept, it.Key)
		}
	}
	require.Less(t, heap()-before, int64(2<<20)) // the answers are 20 MiB
	runtime.KeepAlive(kept)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// D16: the server's duration is kept as the code that it came in. The power is computed for who asks, and nowhere on
// the way of an answer.
func TestDurationsAreDecodedForWhoAsks_D16(t *testing.T) {
	var users []string
	for _, dir := range []string{
		"memd", "retry", "errormap", "collections", "internal/conn", "internal/dispatch", "kv",
		"core",
	} {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			if !strings.HasSuffix(f, "_test.go") {
				users = append(users, decoders(t, dir, f)...)
			}
		}
	}
	require.Equal(t, []string{
		"internal/dispatch.serverTimeOf calls DecodeServerDuration", // for spans, hooks and reports that are on
		"kv.ServerDuration calls DecodeServerDuration",
	}, users)
	res, err := kv.Do(testContext(t), answering(memd.Packet{Frames: duration}), kv.Noop{})
	require.NoError(t, err)
	_, ok := res.ServerDuration()
	require.True(t, ok)
}

// decoders are the functions of a file that call one which decodes a duration.
func decoders(t *testing.T, dir, file string) (users []string) {
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	for _, d := range tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			var name string
			switch f := call.Fun.(type) {
			case *ast.SelectorExpr:
				name = f.Sel.Name
			case *ast.Ident:
				name = f.Name
			}
			if name == "DecodeServerDuration" || name == "ServerDuration" || name == "Pow" && dir == "kv" {
				users = append(users, dir+"."+fn.Name.Name+" calls "+name)
			}
			return true
		})
	}
	return users
}
