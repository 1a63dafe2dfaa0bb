package kv

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Scan finds the documents of a collection: those of Range, or Samples of them at random. One scan of the server's
// covers one vbucket; Run goes through all of them.
type Scan struct {
	Common                // Timeout bounds each request, 0 means the cluster's for scans
	Range      *ScanRange // nil without Samples means everything
	Samples    uint64     // the number of items overall, at most; 0 unless they are wanted at random
	Seed       uint64     // of Samples: the same seed gives the same documents as long as nothing changes
	KeysOnly   bool
	WithXattrs bool // values have their section of extended attributes; memd.SplitXattrs takes them apart
	// Sorted gives items in the order of their keys. It holds all of them in memory first; a result that takes more
	// than MaxSorted bytes fails with a *ResponseError. Otherwise items come as they are found: those of one vbucket in
	// the order of their keys, vbuckets mixed.
	Sorted bool

	// ConsistentWith are mutations that the result must know of. A vbucket that does not have them on disk is asked
	// again, until Timeout.
	ConsistentWith []MutationToken

	Concurrency int    // vbuckets at a time; 0 means one for each node, at most 16
	BatchItems  uint32 // of one answer; 0 means 50
	BatchBytes  uint32 // of one answer, at least one item though; 0 means 15000
}

// MaxSorted is the most that a sorted scan may hold in memory.
const MaxSorted = 256 << 20

const (
	defaultScanTimeout = 10 * time.Second
	defaultBatchItems  = 50
	defaultBatchBytes  = 15000
	maxScanConcurrency = 16
	scanBuffer         = 16 // batches that wait for the reader
	scanCancelTimeout  = time.Second
)

// Scanning is a scan under way. Next and Close belong to one goroutine. It has one goroutine for each vbucket that is
// scanned at a time; they end when the scan has ended, when the context that it was started with does, or with Close,
// which waits for them.
type Scanning struct {
	op     Scan
	d      Dispatcher
	ctx    context.Context
	cancel context.CancelFunc
	end    func(error) // of what observes the scan; the last worker calls it
	leave  func()      // says that the operation is over
	wg     sync.WaitGroup
	out    chan []ScanItem // closed when no vbucket is left

	mu        sync.Mutex
	unscanned map[int][]uint16 // vbuckets by the node that has them
	running   map[int]int      // scans by node
	workers   int
	err       error

	batch  []ScanItem
	item   ScanItem
	given  uint64
	closed bool
}

// Run starts the scan. It waits for the first cluster map with vbuckets, if it has not come yet, and for nothing else.
// The context is that of the whole scan. A caller that does not read the result to its end calls Close.
func (s Scan) Run(ctx context.Context, d Dispatcher) (*Scanning, error) {
	d, leave := compound(d)
	ctx, end := call.Compose(ctx, d.Runner(), "range_scan", s.Scope, s.Collection)
	r, err := s.run(ctx, d, end)
	if err != nil {
		end(err)
		leave()
		return nil, err
	}
	r.leave = leave
	return r, nil
}

func (s Scan) run(ctx context.Context, d Dispatcher, end func(error)) (*Scanning, error) {
	if t, ok := d.Runner().(call.ScanTimer); ok && s.Timeout == 0 {
		s.Timeout = t.ScanTimeout()
	}
	if s.Timeout == 0 {
		s.Timeout = defaultScanTimeout
	}
	if s.BatchItems == 0 {
		s.BatchItems = defaultBatchItems
	}
	if s.BatchBytes == 0 {
		s.BatchBytes = defaultBatchBytes
	}
	if s.Range == nil && s.Samples == 0 {
		s.Range = &ScanRange{}
	}
	if err := checkOp[RangeScan](s.create(0)); err != nil {
		return nil, s.fails(call.KindOf(err, false, nil), err)
	}
	l, err := routable(ctx, d, "scan", &s.Common, call.CapabilityRangeScan)
	if _, lacks := err.(*FeatureError); lacks { //nolint:errorlint // of the whole operation, not of a call
		return nil, s.fails(cberr.FeatureNotAvailable, err)
	}
	if err != nil {
		return nil, err
	}
	if err := s.checkTokens(d, l); err != nil {
		return nil, s.fails(cberr.InvalidArgument, err)
	}
	run := &Scanning{
		op: s, d: d, end: end, out: make(chan []ScanItem, scanBuffer), unscanned: map[int][]uint16{},
		running: map[int]int{},
	}
	run.ctx, run.cancel = context.WithCancel(ctx)
	run.plan(l)
	run.workers = s.Concurrency
	if run.workers <= 0 {
		run.workers = min(max(len(l.DataNodes()), 1), maxScanConcurrency)
	}
	run.workers = min(run.workers, max(l.NumVBuckets(), 1))
	for range run.workers {
		run.wg.Go(run.worker)
	}
	return run, nil
}

// checkTokens refuses mutations that no vbucket of the scan can know of: waiting for another one of the same number
// would promise what it does not keep.
func (s *Scan) checkTokens(d Dispatcher, l call.Layout) error {
	named, _ := d.Runner().(call.Named)
	for i, t := range s.ConsistentWith {
		switch {
		case named != nil && t.Bucket != "" && t.Bucket != named.Name():
			return badArgument("consistent with", "mutation "+strconv.Itoa(i)+" is one of another bucket")
		case int(t.VBucket) >= l.NumVBuckets():
			return badArgument("consistent with", "mutation "+strconv.Itoa(i)+" is one of a vbucket that there is not")
		}
	}
	return nil
}

func (s *Scan) fails(kind, cause error) *Error {
	return &Error{Op: "scan", Scope: s.Scope, Collection: s.Collection, Err: kind, Cause: cause}
}

// create is the request that begins the scan of a vbucket.
func (s *Scan) create(vb uint16) RangeScanCreate {
	c := RangeScanCreate{
		Common: s.Common, VBucket: vb, KeysOnly: s.KeysOnly, WithXattrs: s.WithXattrs, Range: s.Range,
		Samples: s.Samples, Seed: s.Seed,
	}
	for _, t := range s.ConsistentWith {
		if t.VBucket == vb && (c.Snapshot.IsZero() || t.Seqno > c.Snapshot.Seqno) {
			c.Snapshot = t // without a time to wait, which would hold up its connection: the client asks again
		}
	}
	return c
}

// plan sorts the vbuckets by node, each node's in an order of its own, so that the nodes are equally busy. A sampling
// scan's order depends on its seed alone.
func (r *Scanning) plan(l call.Layout) {
	seed := rand.Uint64()
	if r.op.Samples > 0 {
		seed = r.op.Seed
	}
	for vb := range l.NumVBuckets() {
		node := l.NodeIndex(uint16(vb), 0)
		r.unscanned[node] = append(r.unscanned[node], uint16(vb))
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for _, node := range slices.Sorted(maps.Keys(r.unscanned)) { // the order of a map itself is random
		vbs := r.unscanned[node]
		random.Shuffle(len(vbs), func(i, j int) { vbs[i], vbs[j] = vbs[j], vbs[i] })
	}
}

// take gives a vbucket of the node with the fewest scans. Without one the worker leaves, and is told whether it
// is the last: under the same lock, so that a vbucket which comes back meanwhile finds a worker.
func (r *Scanning) take() (vb uint16, node int, ok, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || r.ctx.Err() != nil {
		r.workers--
		return 0, 0, false, r.workers == 0
	}
	for n, vbs := range r.unscanned {
		if len(vbs) > 0 && (!ok || r.running[n] < r.running[node] || r.running[n] == r.running[node] && n < node) {
			node, ok = n, true
		}
	}
	if !ok {
		r.workers--
		return 0, 0, false, r.workers == 0
	}
	vbs := r.unscanned[node]
	vb, r.unscanned[node] = vbs[0], vbs[1:]
	r.running[node]++
	return vb, node, true, false
}

// gave takes a vbucket back that was scanned, or that the node had no room for: then there is one worker fewer, unless
// it is the last.
func (r *Scanning) gave(vb uint16, node int, busy bool) (leave bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[node]--
	if !busy {
		return false
	}
	r.unscanned[node] = append(r.unscanned[node], vb)
	if r.workers > 1 {
		r.workers--
		return true
	}
	return false
}

func (r *Scanning) worker() {
	for wait := pollFirst; ; {
		vb, node, ok, last := r.take()
		if last {
			r.end(r.Err())
			close(r.out)
		}
		if !ok {
			return
		}
		err := r.vbucket(vb)
		if errors.Is(err, errBusy) {
			if r.gave(vb, node, true) {
				return
			}
			pauseFor(r.ctx, wait)
			wait = min(2*wait, pollMax)
			continue
		}
		r.gave(vb, node, false)
		wait = pollFirst
		if err != nil {
			r.fail(err)
		}
	}
}

// pauseFor waits for d; false when ctx has ended.
func pauseFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// fail ends the scan with its first error.
func (r *Scanning) fail(err error) {
	r.mu.Lock()
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	r.cancel()
}

// Next goes to the next item; false says that there are no more, and Err whether that is because of a failure. It ends
// when ctx does.
func (r *Scanning) Next(ctx context.Context) bool {
	if r.op.Samples > 0 && r.given >= r.op.Samples {
		r.Close()
		return false
	}
	for len(r.batch) == 0 {
		if r.closed {
			return false
		}
		var ok bool
		if r.batch, ok = r.receive(ctx); !ok {
			r.Close()
			return false
		}
	}
	r.item, r.batch = r.batch[0], r.batch[1:]
	r.given++
	return true
}

// receive waits for the next items, or for all of them when they are to be sorted.
func (r *Scanning) receive(ctx context.Context) (batch []ScanItem, ok bool) {
	var all []ScanItem
	size := int64(0)
	for {
		select {
		case batch, ok = <-r.out:
		case <-ctx.Done():
			r.fail(r.op.fails(endKind(ctx), context.Cause(ctx)))
			return nil, false
		}
		if !r.op.Sorted {
			return batch, ok
		}
		if !ok {
			if r.Err() != nil {
				return nil, false
			}
			slices.SortFunc(all, func(a, b ScanItem) int { return bytes.Compare(a.Key, b.Key) })
			return all, len(all) > 0
		}
		for _, it := range batch {
			size += int64(len(it.Key)+len(it.Value)) + 128
		}
		if size > MaxSorted {
			r.fail(r.op.fails(cberr.ValueTooLarge, call.TooLarge(memd.OpRangeScanContinue, MaxSorted)))
			return nil, false
		}
		all = append(all, batch...)
	}
}

// endKind is what a call whose context has ended fails with.
func endKind(ctx context.Context) *cberr.Kind {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return cberr.UnambiguousTimeout
	}
	return cberr.RequestCanceled
}

// Item is the current item, after Next has said true.
func (r *Scanning) Item() ScanItem { return r.item }

// Err is why the scan has ended early, as a *Error; nil while it runs, and when it has found everything.
func (r *Scanning) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close ends the scan, on the servers too, and waits for its goroutines: at most a second or so. It may be called more
// than once, also after the last item.
func (r *Scanning) Close() {
	if r.closed {
		return
	}
	r.closed, r.batch = true, nil
	r.mu.Lock()
	if r.err == nil && r.ctx.Err() != nil { // the context that the scan was started with
		r.err = r.op.fails(endKind(r.ctx), context.Cause(r.ctx))
	}
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
	r.leave()
}

// All yields the items, and at the end the failure if there is one. It closes the scan when the loop ends.
func (r *Scanning) All(ctx context.Context) iter.Seq2[ScanItem, error] {
	return func(yield func(ScanItem, error) bool) {
		defer r.Close()
		for r.Next(ctx) {
			if !yield(r.item, nil) {
				return
			}
		}
		if err := r.Err(); err != nil {
			yield(ScanItem{}, err)
		}
	}
}
