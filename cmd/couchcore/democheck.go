package main

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

// check judges every write twice: by reading the document back, and by the mock's log of what its nodes executed. An
// acknowledged write is there and was executed once; one in doubt was executed at most once; a refused one never.
func (d *demo) check(l *demoLoad) error {
	applied := map[string]int{}
	for _, e := range d.m.ApplyLog(mock.DefaultBucket) {
		applied[tokenOf(e.Token)]++
	}
	missing := make([]int, len(l.workers)) // by worker
	var wg sync.WaitGroup
	for i, w := range l.workers {
		wg.Go(func() { missing[i] = d.readBack(w, applied) })
	}
	wg.Wait()
	for i, w := range l.workers {
		d.report.Lost += missing[i]
		for _, x := range w.writes {
			n := applied[x.token]
			if n > 1 {
				d.report.AppliedTwice++
			}
			if n > 0 && x.out == refused {
				d.report.AppliedThoughRefused++
			}
		}
	}
	if d.report.Acknowledged == 0 {
		d.problem("no write was acknowledged")
	}
	return nil
}

// readBack counts the worker's acknowledged writes that are not there.
func (d *demo) readBack(w *demoWorker, applied map[string]int) (missing int) {
	for _, x := range w.writes {
		if x.out != acknowledged {
			continue
		}
		res, err := kv.Do(context.Background(), d.bucket, kv.Get{
			Key:    []byte(x.token),
			Common: kv.Common{Timeout: 10 * time.Second},
		})
		if err != nil || !bytes.HasPrefix(res.Value, []byte(x.token)) || applied[x.token] == 0 {
			missing++
		}
	}
	return missing
}

// tokenOf cuts a logged value's beginning down to the token.
func tokenOf(logged string) string { return logged[:min(len(logged), len("w0000-00000000"))] }
