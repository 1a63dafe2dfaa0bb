package kv

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// MaxScanName is the longest name of a scan.
const MaxScanName = 50

// ScanRange are the keys from Start to End. Both are part of the range unless they are excluded. A nil Start is before
// every key, a nil End behind every key.
type ScanRange struct {
	Start, End               []byte
	ExcludeStart, ExcludeEnd bool
}

// minTerm and maxTerm are before and behind every key, which are texts.
const (
	minTerm = "\x00"
	maxTerm = "\xff"
)

// PrefixRange are the keys that begin with prefix.
func PrefixRange(prefix []byte) *ScanRange {
	if len(prefix) >= MaxKeyLen { // only it itself can be a key, and servers take no longer terms
		return &ScanRange{Start: prefix, End: prefix}
	}
	return &ScanRange{Start: prefix, End: append(append([]byte(nil), prefix...), maxTerm...)}
}

// RangeScanCreate begins a scan of one vbucket: of Range, or of Samples documents at random. A vbucket without such
// keys is cberr.DocumentNotFound, a node with too many scans cberr.TemporaryFailure. The scan lives on the connection
// that made it. Scan runs scans over all vbuckets.
type RangeScanCreate struct {
	Common
	VBucket    uint16
	KeysOnly   bool
	WithXattrs bool
	Name       string // for the server's logs
	Range      *ScanRange
	Samples    uint64 // at most; 0 when Range is set
	Seed       uint64 // of Samples: the same seed gives the same documents as long as nothing changes
	// Snapshot is a mutation that the vbucket must know of, with all before it, before it is scanned.
	Snapshot  MutationToken
	MustExist bool // the very mutation must still be there
	// SnapshotWait is how long the node waits until it is on disk; 0 fails at once, with cberr.TemporaryFailure for the
	// strategy. Meanwhile the node may hold up what follows on the connection: Scan asks again instead.
	SnapshotWait time.Duration
}

// RangeScan is the result of RangeScanCreate, which RangeScanContinue and RangeScanCancel want.
type RangeScan struct {
	Result
	VBucket uint16
	ID      [16]byte
}

func (c *RangeScanCreate) check() error {
	switch {
	case c.Seed != 0 && c.Samples == 0, c.Samples > math.MaxInt64:
		return badArgument("samples", fmt.Sprintf("are %d, 1 to %d allowed", c.Samples, int64(math.MaxInt64)))
	case (c.Range == nil) == (c.Samples == 0):
		return badArgument("scan", "needs either a range or samples")
	case c.KeysOnly && c.WithXattrs:
		return badArgument("xattrs", "are asked for without documents")
	case len(c.Name) > MaxScanName:
		return outOfRange("name length", int64(len(c.Name)), MaxScanName)
	case c.SnapshotWait < 0:
		return badArgument("snapshot wait", "is negative")
	}
	if c.Range != nil {
		for _, term := range [...][]byte{c.Range.Start, c.Range.End} {
			if len(term) > MaxKeyLen {
				return outOfRange("term length", int64(len(term)), MaxKeyLen)
			}
		}
	}
	return nil
}

// encode implements Op. The value is JSON without the collection, whose id is put in when the request is appended.
func (c RangeScanCreate) encode(r *call.Request) (decoder[RangeScan], error) {
	setCommon(r, &c.Common)
	r.Opcode = memd.OpRangeScanCreate
	if err := c.check(); err != nil {
		return nil, err
	}
	r.ByVBucket, r.VBucket, r.Own().Waits = true, c.VBucket, c.SnapshotWait
	r.Own().Capability = call.CapabilityRangeScan
	r.Datatype = memd.DatatypeJSON
	r.Require(memd.Features(0).With(memd.FeatureJSON))
	b := append(make([]byte, 0, 256), '{')
	if c.KeysOnly {
		b = append(b, `"key_only":true,`...)
	}
	if c.WithXattrs {
		b = append(b, `"include_xattrs":true,`...)
		r.Require(memd.Features(0).With(memd.FeatureRangeScanIncludeXattr))
	}
	if c.Name != "" {
		b = append(b, `"name":`...)
		text, _ := json.Marshal(c.Name) // texts cannot fail
		b = append(b, text...)
		b = append(b, ',')
	}
	if c.Samples > 0 {
		b = append(b, `"sampling":{"samples":`...)
		b = strconv.AppendUint(b, c.Samples, 10)
		b = append(b, `,"seed":`...)
		b = strconv.AppendUint(b, c.Seed, 10)
		b = append(b, '}')
	} else {
		b = append(b, `"range":{"`...)
		b = appendTerm(b, "start", c.Range.Start, minTerm, c.Range.ExcludeStart)
		b = append(b, `,"`...)
		b = appendTerm(b, "end", c.Range.End, maxTerm, c.Range.ExcludeEnd)
		b = append(b, '}')
	}
	r.Value = append(c.appendSnapshot(b), '}')
	return decodeRangeScanCreate, nil
}

func appendTerm(b []byte, name string, term []byte, open string, excluded bool) []byte {
	if term == nil {
		term = []byte(open)
	}
	if excluded {
		b = append(b, "excl_"...)
	}
	b = append(append(b, name...), `":"`...)
	b = base64.StdEncoding.AppendEncode(b, term)
	return append(b, '"')
}

func (c *RangeScanCreate) appendSnapshot(b []byte) []byte {
	if c.Snapshot.IsZero() && !c.MustExist && c.SnapshotWait == 0 {
		return b
	}
	b = append(b, `,"snapshot_requirements":{"vb_uuid":"`...)
	b = strconv.AppendUint(b, c.Snapshot.UUID, 10)
	b = append(b, `","seqno":`...)
	b = strconv.AppendUint(b, c.Snapshot.Seqno, 10)
	if c.MustExist {
		b = append(b, `,"seqno_exists":true`...)
	}
	if c.SnapshotWait > 0 {
		b = append(b, `,"timeout_ms":`...)
		b = strconv.AppendInt(b, wholeMS(c.SnapshotWait), 10)
	}
	return append(b, '}')
}

// decodeRangeScanCreate makes the result of a RangeScanCreate.
func decodeRangeScanCreate(r *call.Response) (RangeScan, error) {
	s := RangeScan{Result: resultOf(r), VBucket: r.VBucket()}
	if len(r.Value) != len(s.ID) {
		return RangeScan{}, call.Malformed(r, "value", len(s.ID))
	}
	copy(s.ID[:], r.Value)
	return s, nil
}

// RangeScanContinue asks for the next items of a scan, on the connection that made it: cberr.RequestCanceled when that
// has ended. It is never retried, because the items of an answer that is lost are lost.
type RangeScanContinue struct {
	Common
	Scan     RangeScan
	MaxItems uint32        // 0 means any number
	MaxBytes uint32        // 0 means any number; one item is always returned
	MaxTime  time.Duration // 0 means any
}

// ScanItem is a document or a key that a scan has found. Its bytes are the caller's, in memory of their own: a key that
// is kept keeps nothing else alive.
type ScanItem struct {
	Key      []byte
	Value    []byte // nil in a scan of keys
	Flags    uint32
	Expiry   time.Time
	Seqno    uint64
	CAS      uint64
	Datatype memd.Datatype
}

// wholeMS is a time in milliseconds, of which a part counts as one.
func wholeMS(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// ScanItems is the result of RangeScanContinue.
type ScanItems struct {
	Result
	Items    []ScanItem
	Complete bool // the scan has ended and is forgotten; otherwise there are more items
}

// encode implements Op.
func (c RangeScanContinue) encode(r *call.Request) (decoder[ScanItems], error) {
	setCommon(r, &c.Common)
	r.Opcode = memd.OpRangeScanContinue
	ms := wholeMS(c.MaxTime)
	if c.MaxTime < 0 || ms > math.MaxUint32 {
		return nil, badArgument("time", "is negative or too long")
	}
	r.ByVBucket, r.VBucket = true, c.Scan.VBucket
	setConnection(r, c.Scan.Connection())
	var extras [28]byte
	n := copy(extras[:], c.Scan.ID[:])
	binary.BigEndian.PutUint32(extras[n:], c.MaxItems)
	binary.BigEndian.PutUint32(extras[n+4:], uint32(ms))
	binary.BigEndian.PutUint32(extras[n+8:], c.MaxBytes)
	r.SetExtras(extras[:])
	return decodeRangeScanContinue, nil
}

// decodeRangeScanContinue makes the result of a RangeScanContinue.
func decodeRangeScanContinue(r *call.Response) (ScanItems, error) {
	if err := r.PartsError(); err != nil {
		return ScanItems{}, err
	}
	res := ScanItems{Result: resultOf(r), Complete: r.Status == memd.StatusRangeScanComplete}
	budget := int64(MaxParts)
	for _, p := range append(r.Parts(), call.Part{Extras: r.Flags(), Value: r.Value}) {
		var err error
		if res.Items, err = appendScanItems(res.Items, p, r, &budget); err != nil {
			return ScanItems{}, err
		}
	}
	return res, nil
}

// appendScanItems reads the items of one packet. budget bounds what compressed values may grow to.
func appendScanItems(items []ScanItem, p call.Part, r *call.Response, budget *int64) ([]ScanItem, error) {
	short := func() error {
		return &ResponseError{Opcode: r.Opcode, Field: "value", Len: len(p.Value), Want: len(p.Value) + 1}
	}
	if p.Extras > 1 {
		return nil, unknownFormat(r.Opcode, p.Extras)
	}
	for tail := p.Value; len(tail) > 0; {
		var it ScanItem
		if p.Extras == 1 {
			if len(tail) < 25 {
				return nil, short()
			}
			it.Flags, it.Expiry = binary.BigEndian.Uint32(tail), unixTime(binary.BigEndian.Uint32(tail[4:]))
			it.Seqno, it.CAS = binary.BigEndian.Uint64(tail[8:]), binary.BigEndian.Uint64(tail[16:])
			it.Datatype, tail = memd.Datatype(tail[24]), tail[25:]
		}
		var ok bool
		if it.Key, tail, ok = cutPrefixed(tail); !ok {
			return nil, short()
		}
		it.Key = bytes.Clone(it.Key)
		if p.Extras == 1 {
			if it.Value, tail, ok = cutPrefixed(tail); !ok {
				return nil, short()
			}
			if it.Datatype&memd.DatatypeSnappy != 0 {
				var err error
				if it.Value, err = call.AppendInflated(nil, it.Value, *budget); err != nil {
					return nil, err
				}
				*budget -= int64(len(it.Value))
				it.Datatype &^= memd.DatatypeSnappy
			} else {
				it.Value = bytes.Clone(it.Value)
			}
		}
		items = append(items, it)
	}
	return items, nil
}

// cutPrefixed takes a text with its length before it off b.
func cutPrefixed(b []byte) (text, tail []byte, ok bool) {
	n, tail, err := memd.ParseLEB128(b)
	if err != nil || uint64(n) > uint64(len(tail)) {
		return nil, nil, false
	}
	return tail[:n:n], tail[n:], true
}

// RangeScanCancel ends a scan on the server. One that has ended already is cberr.DocumentNotFound.
type RangeScanCancel struct {
	Common
	Scan RangeScan
}

// encode implements Op.
func (c RangeScanCancel) encode(r *call.Request) (decoder[Result], error) {
	setCommon(r, &c.Common)
	r.Opcode = memd.OpRangeScanCancel
	r.ByVBucket, r.VBucket = true, c.Scan.VBucket
	setConnection(r, c.Scan.Connection())
	r.SetExtras(c.Scan.ID[:])
	return onlyResult, nil
}
