package conn_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/couchcore/couchcore/kv"
)

// D53: a close of a connection, at any moment, races with no use of it, and every call ends once. Of several goroutines
// that close it, the second may be faster than the first.
func TestCloseRacesNoCall_D53(t *testing.T) {
	for range 30 {
		d := connect(t, document)
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for {
					_, err := kv.Do(context.Background(), d, kv.Get{Key: []byte{byte(i)}})
					d.cn.InFlight()
					d.cn.Idle()
					d.cn.ShrinkIdle()
					if err != nil {
						return
					}
				}
			})
		}
		for range 3 {
			wg.Go(func() { runtime.Gosched(); d.cn.Close(errors.New("enough")) })
		}
		wg.Wait()
	}
}
