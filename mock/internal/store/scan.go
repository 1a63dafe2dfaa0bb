package store

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
)

const (
	maxScanName = 50
	maxScanTerm = MaxKey
)

// ScanItem is a document that a scan has found.
type ScanItem struct {
	key string
	d   *doc
}

// scanRequest is the value of RANGE_SCAN_CREATE.
type scanRequest struct {
	Collection *string `json:"collection"`
	KeyOnly    bool    `json:"key_only"`
	Xattrs     bool    `json:"include_xattrs"`
	Name       string  `json:"name"`
	Range      *struct {
		Start     *string `json:"start"`
		ExclStart *string `json:"excl_start"`
		End       *string `json:"end"`
		ExclEnd   *string `json:"excl_end"`
	} `json:"range"`
	Sampling *struct {
		Seed    uint64  `json:"seed"`
		Samples *uint64 `json:"samples"`
	} `json:"sampling"`
	Snapshot *struct {
		UUID    *string `json:"vb_uuid"`
		Seqno   *uint64 `json:"seqno"`
		Exists  bool    `json:"seqno_exists"`
		Timeout uint64  `json:"timeout_ms"` // any unsigned number, of which a server takes the lower half
	} `json:"snapshot_requirements"`
}

// ScanPlan is a scan request that makes sense.
type ScanPlan struct {
	Collection       uint32
	KeysOnly, Xattrs bool
	from, to         string
	exclFrom, exclTo bool
	samples, seed    uint64
	snapshot         bool
	uuid, seqno      uint64
	exists           bool
	Wait             time.Duration
}

// PlanScan reads the value of RANGE_SCAN_CREATE. The text says what is wrong with it.
func PlanScan(value []byte) (p ScanPlan, wrong string) {
	var rq scanRequest
	if err := json.Unmarshal(value, &rq); err != nil {
		return p, "Value is not the JSON that is expected"
	}
	if rq.Collection != nil {
		id, err := strconv.ParseUint(*rq.Collection, 16, 32)
		if err != nil {
			return p, "Invalid formatting of the collection field"
		}
		p.Collection = uint32(id)
	}
	switch {
	case rq.Range != nil && rq.Sampling != nil:
		return p, "range and sampling"
	case rq.KeyOnly && rq.Xattrs:
		return p, "cannot set key_only:true and include_xattrs:true"
	case len(rq.Name) > maxScanName:
		return p, "name exceeds 50 bytes"
	}
	p.KeysOnly, p.Xattrs, p.to = rq.KeyOnly, rq.Xattrs, strings.Repeat("\xff", MaxPrefixedKey) // the whole collection
	if r := rq.Range; r != nil {
		if p.from, p.exclFrom, wrong = scanTerm("start", r.Start, r.ExclStart); wrong == "" {
			p.to, p.exclTo, wrong = scanTerm("end", r.End, r.ExclEnd)
		}
		switch {
		case wrong != "":
			return p, wrong
		case len(p.from) > maxScanTerm || len(p.to) > maxScanTerm:
			return p, fmt.Sprintf("invalid key size in range start:%d, end:%d", len(p.from), len(p.to))
		}
	}
	if s := rq.Sampling; s != nil {
		if s.Samples == nil || *s.Samples == 0 {
			return p, "samples must be more than 0"
		}
		p.samples, p.seed = *s.Samples, s.Seed
	}
	if s := rq.Snapshot; s != nil {
		if s.UUID == nil || s.Seqno == nil {
			return p, "snapshot_requirements needs vb_uuid and seqno"
		}
		uuid, err := strconv.ParseUint(*s.UUID, 10, 64)
		if err != nil {
			return p, "vb_uuid is not a number"
		}
		p.snapshot, p.uuid, p.seqno, p.exists = true, uuid, *s.Seqno, s.Exists
		p.Wait = time.Duration(uint32(s.Timeout)) * time.Millisecond
	}
	return p, ""
}

// scanTerm reads an end of a range, of the two forms that it has. The text says what is wrong with it.
func scanTerm(name string, incl, excl *string) (term string, excluded bool, wrong string) {
	switch {
	case incl != nil && excl != nil:
		return "", false, fmt.Sprintf("range included both %[1]s and excl_%[1]s", name)
	case incl == nil && excl == nil:
		return "", false, fmt.Sprintf("range did not include %[1]s or excl_%[1]s", name)
	}
	b, err := base64.StdEncoding.DecodeString(*cmp.Or(incl, excl))
	if err != nil {
		return "", false, name + " is not base64"
	}
	return string(b), excl != nil, ""
}

// holds reports whether a key is in the range of the scan.
func (p *ScanPlan) holds(key string) bool {
	return p.samples > 0 || (key > p.from || key == p.from && !p.exclFrom) && (key < p.to || key == p.to && !p.exclTo)
}

// pick gathers what a scan finds in a copy of a vbucket: samples are the same for the same seed.
func (p *ScanPlan) pick(c *docCopy, now time.Time) []ScanItem {
	var items []ScanItem
	for _, id := range c.keys() {
		if d := c.docs[id]; id.cid == p.Collection && d.live(now) && p.holds(id.key) {
			items = append(items, ScanItem{id.key, d})
		}
	}
	if p.samples == 0 || p.samples >= uint64(len(items)) {
		return items
	}
	random := rand.New(rand.NewPCG(p.seed, 0))
	random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	items = items[:p.samples]
	slices.SortFunc(items, func(a, b ScanItem) int { return cmp.Compare(a.key, b.key) })
	return items
}

// Scan executes a plan on what the active node has of a vbucket, and returns the documents that are found in the order
// of their keys. A snapshot that the plan wants may be another vbucket's (StatusVBUUIDNotEqual), not on disk yet
// (StatusTmpFail) or without the document that it is named by (StatusNotStored).
func (s *Store) Scan(vb uint16, node int, p *ScanPlan, now time.Time) ([]ScanItem, memd.Status) {
	v := &s.vbs[vb]
	held := v.active(now)
	if p.snapshot {
		_, persisted := s.Seqnos(vb, node, now)
		switch {
		case v.history[0].UUID != p.uuid:
			return nil, memd.StatusVBUUIDNotEqual
		case persisted < p.seqno:
			return nil, memd.StatusTmpFail
		case p.exists && !held.hasSeqno(p.seqno):
			return nil, memd.StatusNotStored
		}
	}
	return p.pick(held, now), memd.StatusSuccess
}

func (c *docCopy) hasSeqno(n uint64) bool {
	for _, d := range c.docs {
		if d.seqno == n {
			return true
		}
	}
	return false
}

// Append appends the item as the client of a scan gets it. compressed is what the connection does about a value, whose
// last argument says whether it came compressed.
func (it *ScanItem) Append(dst []byte, keysOnly, xattrs bool, compressed func([]byte, memd.Datatype, bool) ([]byte,
	memd.Datatype),
) []byte {
	if keysOnly {
		return append(memd.AppendLEB128(dst, uint32(len(it.key))), it.key...)
	}
	d := it.d
	dst = binary.BigEndian.AppendUint32(dst, d.flags)
	dst = binary.BigEndian.AppendUint32(dst, d.expiry)
	dst = binary.BigEndian.AppendUint64(dst, d.seqno)
	dst = binary.BigEndian.AppendUint64(dst, d.cas)
	value, dt := d.value, d.datatype
	if xattrs && d.attrs != nil {
		value, dt = d.xattrs().Section(value), dt|memd.DatatypeXattr
	}
	value, dt = compressed(value, dt, d.packed)
	dst = append(dst, byte(dt))
	dst = append(memd.AppendLEB128(dst, uint32(len(it.key))), it.key...)
	return append(memd.AppendLEB128(dst, uint32(len(value))), value...)
}
