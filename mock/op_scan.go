package mock

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// RANGE_SCAN_CREATE, CONTINUE and CANCEL. A scan sees its vbucket as it is when it is made; it ends with its
// connection, when its vbucket leaves the node, or when three minutes pass without a request. An answer to CONTINUE is
// several packets of about 8 KiB. Left out: what a node has in memory only is scanned, too; the limit on the time of a
// CONTINUE.

const (
	scanPacket   = 8 << 10 // a packet of a scan goes out once it has this much
	scanLifetime = 180 * time.Second
	scansAtOnce  = 2048 // of a bucket, unless a test says otherwise
)

type scanID [16]byte

// scan is one range scan. It lives on the connection that made it; the cluster's mutex guards it.
type scan struct {
	b        *bucket
	vb       uint16
	keysOnly bool
	xattrs   bool
	items    []store.ScanItem // what was there when it was made, in the order of keys
	used     time.Time
	running  bool // an answer to CONTINUE is under way
	gone     bool // cancelled
}

func scanCreate(rq *request) reply {
	if rq.b.ephemeral {
		return reply{status: memd.StatusNotSupported}
	}
	if rq.p.Datatype != memd.DatatypeJSON {
		return fail(memd.StatusInvalid, "Datatype must be JSON")
	}
	plan, wrong := store.PlanScan(rq.p.Value)
	if wrong != "" {
		return fail(memd.StatusInvalid, "%s", wrong)
	}
	if plan.Xattrs && !rq.features.Has(memd.FeatureXattr) {
		return fail(memd.StatusNotSupported, "Client does not support XATTRs")
	}
	rq.cid = plan.Collection
	for end := rq.at.Add(plan.Wait); ; {
		rep, again := rq.tryScan(&plan)
		now := time.Now()
		if !again || !now.Before(end) || !rq.pause(min(5*time.Millisecond, end.Sub(now))) {
			return rep
		}
	}
}

// tryScan makes the scan, or says that it may work later.
func (rq *request) tryScan(plan *store.ScanPlan) (rep reply, again bool) {
	c, b := rq.k.c, rq.b
	c.mu.Lock()
	defer c.mu.Unlock()
	if rep, ok := rq.place(); !ok {
		return rep, false
	}
	now := rq.k.c.now()
	items, st := b.store.Scan(rq.p.VBucket, rq.k.n.index, plan, now)
	if st != memd.StatusSuccess {
		return reply{status: st}, st == memd.StatusTmpFail
	}
	s := &scan{b: b, vb: rq.p.VBucket, keysOnly: plan.KeysOnly, xattrs: plan.Xattrs, items: items, used: now}
	switch {
	case len(s.items) == 0:
		return fail(memd.StatusKeyNotFound, "RangeScan vb:%d %s tryAndScanOneKey no keys in range: no such key", s.vb,
			rq.k.c.set.newUUID()), false
	case b.scans >= b.maxScans():
		return fail(memd.StatusBusy, "Too many scans"), false
	}
	var id scanID
	rand.Read(id[:]) // never fails
	if rq.k.scans == nil {
		rq.k.scans = map[scanID]*scan{}
	}
	rq.k.scans[id] = s
	b.scans++
	return reply{value: id[:]}, false
}

// maxScans is how many scans the bucket may have at once.
func (b *bucket) maxScans() int {
	if b.scanLimit > 0 {
		return b.scanLimit
	}
	return scansAtOnce
}

// dropScan forgets a scan. The caller holds the mutex.
func (k *conn) dropScan(id scanID) {
	if s := k.scans[id]; s != nil {
		s.gone = true
		s.b.scans--
		delete(k.scans, id)
	}
}

// findScan finds the scan that the request names. The caller holds the mutex.
func (rq *request) findScan() (id scanID, s *scan, rep reply) {
	copy(id[:], rq.p.Extras)
	s = rq.k.scans[id]
	now := rq.k.c.now()
	switch {
	case s == nil:
	case now.Sub(s.used) > scanLifetime && !s.running:
		rq.k.dropScan(id)
		s = nil
	case rq.b.gone, s.b != rq.b, s.b.rows[s.vb][0] != rq.k.n.index, s.vb != rq.p.VBucket:
		if s.b == rq.b && s.vb == rq.p.VBucket {
			rq.k.dropScan(id)
		}
		return id, nil, rq.notMine()
	}
	if s == nil {
		return id, nil, reply{status: memd.StatusKeyNotFound}
	}
	s.used = now
	return id, s, reply{}
}

func scanCancel(rq *request) reply {
	c := rq.k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	id, s, rep := rq.findScan()
	if s != nil {
		rq.k.dropScan(id)
	}
	return rep
}

// scanLimits are what an answer to CONTINUE may have; 0 means any number.
type scanLimits struct{ items, bytes uint32 }

func scanContinue(rq *request) reply {
	x := rq.p.Extras[16:]
	limits := scanLimits{binary.BigEndian.Uint32(x), binary.BigEndian.Uint32(x[8:])}
	c := rq.k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	id, s, rep := rq.findScan()
	switch {
	case s == nil:
		return rep
	case s.running:
		return fail(memd.StatusBusy, "A CONTINUE of the scan is under way")
	case s.b.scanPace > 0:
		s.running = true
		pace := s.b.scanPace
		c.wg.Go(func() { rq.slowly(id, s, limits, pace) }) // the node is open: it has just had a request
		return reply{silent: true}
	}
	for {
		part, last := rq.part(id, s, &limits)
		if last {
			part.before = rep.before
			return part
		}
		rep.before = append(rep.before, part)
	}
}

// slowly sends the packets of an answer with a pause before each.
func (rq *request) slowly(id scanID, s *scan, limits scanLimits, pace time.Duration) {
	for last := false; !last; {
		if !rq.k.pause(pace) {
			return
		}
		var part reply
		rq.k.c.mu.Lock()
		if s.gone {
			part, last = reply{status: memd.StatusRangeScanCancelled}, true
		} else {
			part, last = rq.part(id, s, &limits)
		}
		s.running = !last
		rq.k.c.mu.Unlock()
		rq.k.send(rq.encode(&part, &noFault))
		rq.k.flush()
	}
}

// part takes the items of one packet off a scan and says whether it is the answer's last. The caller holds the mutex.
func (rq *request) part(id scanID, s *scan, left *scanLimits) (rep reply, last bool) {
	format := uint32(1)
	if s.keysOnly {
		format = 0
	}
	rep.extras = binary.BigEndian.AppendUint32(nil, format)
	for len(s.items) > 0 && len(rep.value) < scanPacket {
		size := len(rep.value)
		rep.value = s.items[0].Append(rep.value, s.keysOnly, s.xattrs, rq.pack)
		s.items = s.items[1:]
		full := left.items == 1
		if left.items > 0 {
			left.items--
		}
		if left.bytes > 0 {
			used := uint32(min(len(rep.value)-size, int(left.bytes)))
			left.bytes -= used
			full = full || left.bytes == 0
		}
		if full && len(s.items) > 0 {
			rep.status = memd.StatusRangeScanMore
			return rep, true
		}
	}
	if len(s.items) > 0 {
		return rep, false
	}
	rep.status = memd.StatusRangeScanComplete
	rq.k.dropScan(id)
	return rep, true
}

// SetScanLimit sets how many range scans a bucket may have at once on all connections: more are refused as EBUSY
// (0x85). 0 means as many as a server allows.
func (c *Cluster) SetScanLimit(name string, n int) error {
	return c.withBucket(name, func(b *bucket) { b.scanLimit = max(0, n) })
}

// SetScanPace makes a bucket's nodes wait before each packet of an answer to RANGE_SCAN_CONTINUE, from now on. Until
// the last packet the scan can be cancelled, and another CONTINUE of it is refused as EBUSY (0x85).
func (c *Cluster) SetScanPace(name string, pace time.Duration) error {
	return c.withBucket(name, func(b *bucket) { b.scanPace = max(0, pace) })
}

// Scans returns how many range scans a bucket has at present.
func (c *Cluster) Scans(bucket string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.buckets[bucket]; b != nil {
		return b.scans
	}
	return 0
}

func (c *Cluster) withBucket(name string, f func(*bucket)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.buckets[name]
	if b == nil {
		return fmt.Errorf("mock: no bucket %q", name)
	}
	f(b)
	return nil
}
