package chaos

import (
	"context"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"time"
)

// memoryMost is how many times its limit the process may have at most. The limit makes the collector run more often and
// refuses nothing: what callers and answers have in hand counts, too, 32 times up to 512 KiB.
const memoryMost = 4

// weigh looks at how much memory the process has, which the collector keeps at its limit while what is in use allows
// that. A round counts the looks at which it was close to the limit, or beyond it.
func (c *client) weigh(ctx context.Context, _ *rand.Rand) {
	near, most := 0, int64(0)
	var kept [][]byte
	for ctx.Err() == nil {
		sleep(ctx, 5*time.Millisecond)
		now := memoryOfProcess()
		if most = max(most, now); now >= c.sc.memory/8*7 {
			near++
		}
		if c.o.Plant == plantHeap && len(kept) < 2*memoryMost {
			kept = append(kept, make([]byte, c.sc.memory/2))
		}
	}
	c.fired(faultMemory, near)
	if most > memoryMost*c.sc.memory {
		c.violate("P12", "", "the process had %d MiB, with a limit of %d MiB", most>>20, c.sc.memory>>20)
	}
	runtime.KeepAlive(kept)
}

// memoryOfProcess is what the runtime has from the system and has not given back, in bytes.
func memoryOfProcess() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64()) - int64(s[1].Value.Uint64())
}
