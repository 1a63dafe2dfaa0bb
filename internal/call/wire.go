package call

import (
	"encoding/binary"
	"math/bits"
	"strconv"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
)

// Wire is what a request's form depends on besides its own fields: the connection's features and the attempt's route.
type Wire struct {
	Features     memd.Features
	Opaque       uint32
	VBucket      uint16
	CollectionID uint32
	DurabilityMS uint32

	Via *Via // the connection, for the call's errors
}

// FeatureError means that something cannot do what a request asks for: the chosen connection has not negotiated the
// Feature, or, with a Capability, the newest cluster map says that the bucket has it not. It unwraps to
// cberr.FeatureNotAvailable.
type FeatureError struct {
	Feature    memd.Feature
	Capability string
}

func (e *FeatureError) Error() string {
	if e.Capability != "" {
		return "the bucket has no capability " + e.Capability
	}
	return "the node does not grant the feature " + e.Feature.String()
}

func (e *FeatureError) Unwrap() error { return cberr.FeatureNotAvailable }

// ConnectionGoneError means that a request is bound to a connection which has ended, or whose node no longer has the
// vbucket. It unwraps to cberr.RequestCanceled. The request was not sent.
type ConnectionGoneError struct{ Connection string }

func (e *ConnectionGoneError) Error() string {
	return "the connection " + e.Connection + " that the request belongs to is gone"
}

func (e *ConnectionGoneError) Unwrap() error { return cberr.RequestCanceled }

// AppendTo appends the request's wire form to dst. It is repeatable, runs no code of a user's, and gives dst back
// unchanged with an error when the connection lacks a feature or a length does not fit.
func (r *Request) AppendTo(dst []byte, w *Wire) ([]byte, error) {
	dst, value, err := r.appendHead(dst, w)
	return append(dst, value...), err
}

// appendHead is AppendTo but for the value, which is what must follow; nil with an error. It may be r's own.
func (r *Request) appendHead(dst []byte, w *Wire) (head, value []byte, err error) {
	if missing := r.Needs() &^ w.Features; missing != 0 {
		return dst, nil, &FeatureError{Feature: memd.Feature(bits.TrailingZeros64(uint64(missing)))}
	}
	if r.Connection() != "" && (w.Via == nil || r.Connection() != w.Via.Local) {
		return dst, nil, &ConnectionGoneError{r.Connection()}
	}
	var frames []byte
	if r.Durability != 0 || r.PreserveExpiry || r.OnBehalfOf() != "" {
		var buf [280]byte
		if frames, err = r.appendFrames(buf[:0], w); err != nil {
			return dst, nil, err
		}
	}
	var prefix [5]byte
	pre, err := r.collectionPrefix(prefix[:0], w)
	if err != nil {
		return dst, nil, err
	}
	dt, err := r.wireDatatype(w)
	if err != nil {
		return dst, nil, err
	}
	value = r.Value
	if dt&^r.Datatype&memd.DatatypeSnappy != 0 {
		value = r.packed()
	}
	var place [8]byte
	pre, key, extras, value := r.wireParts(place[:0], pre, value, w)
	h := memd.Header{
		Magic: memd.MagicReq, Opcode: r.Opcode, Datatype: dt, VBucketOrStatus: w.VBucket, Opaque: w.Opaque, CAS: r.CAS,
		FramesLen: len(frames), ExtrasLen: len(extras), KeyLen: len(pre) + len(key),
	}
	if h.FramesLen > 0 {
		h.Magic = memd.MagicReqExt
	}
	if h.KeyLen > 255 || h.FramesLen > 255 {
		return dst, nil, OutOfRange("encoded key length", int64(h.KeyLen), 255)
	}
	h.BodyLen = h.FramesLen + h.ExtrasLen + h.KeyLen + len(value)
	dst = memd.AppendHeader(dst, h)
	dst = append(dst, frames...)
	dst = append(dst, extras...)
	dst = append(dst, pre...)
	return append(dst, key...), value, nil
}

// collectionPrefix appends the id that stands before the key on a connection that knows collections.
func (r *Request) collectionPrefix(dst []byte, w *Wire) ([]byte, error) {
	s := specs[r.Opcode]
	if s == nil || !s.Has(CollectionAware) {
		return dst, nil
	}
	switch {
	case w.Features.Has(memd.FeatureCollections):
		if s.Has(Keyed) {
			return memd.AppendLEB128(dst, w.CollectionID), nil
		}
	case w.CollectionID != 0:
		return dst, &FeatureError{Feature: memd.FeatureCollections}
	}
	return dst, nil
}

// wireParts are the parts of the request as w's connection has them: some commands have there what others have
// elsewhere. place is memory for extras.
func (r *Request) wireParts(place, pre, value []byte, w *Wire) (prefix, key, extras, body []byte) {
	key, extras = r.Key, r.extras[:r.extrasLen]
	switch r.Opcode {
	case memd.OpGetClusterConfig:
		if !w.Features.Has(memd.FeatureGetClusterConfigWithVersion) {
			extras = nil // the version we know is only a hint, and this node would refuse it
		}
	case memd.OpGetRandomKey:
		extras = append(place, extras...)
		if binary.BigEndian.PutUint32(extras, w.CollectionID); !w.Features.Has(memd.FeatureCollections) {
			extras = nil
		}
	case memd.OpObserve:
		value = appendObserved(make([]byte, 0, 4+len(pre)+len(key)), w.VBucket, pre, key)
		pre, key = nil, nil
	case memd.OpRangeScanCreate:
		value = appendScanCreate(nil, value, w.CollectionID)
	}
	return pre, key, extras, value
}

// simpleLen is how long a Simple request is on a connection with w's features.
func (r *Request) simpleLen(w *Wire) int {
	n := memd.HeaderLen + int(r.extrasLen) + len(r.Key) + len(r.Value)
	if w.Features.Has(memd.FeatureCollections) {
		n++
	}
	return n
}

// PutSimple writes a request to b, whose length is what Call.BeginSimple has said.
func (r *Request) PutSimple(b []byte, w *Wire) {
	head, dt := (*[memd.HeaderLen]byte)(b), r.Datatype
	if !w.Features.Has(memd.FeatureJSON) {
		dt = 0
	}
	body, key := len(b)-memd.HeaderLen, len(r.Key)
	b = b[memd.HeaderLen:]
	b = b[copy(b, r.extras[:r.extrasLen]):]
	if w.Features.Has(memd.FeatureCollections) {
		b[0] = 0 // the default collection's id
		b = b[1:]
		key++
	}
	memd.PutRequest(head, r.Opcode, uint16(key), r.extrasLen, dt, w.VBucket, uint32(body), w.Opaque, r.CAS)
	b = b[copy(b, r.Key):]
	copy(b, r.Value)
}

// wireDatatype is the datatype on a connection with w's features. The mark of JSON is only a hint, so it is left out
// where it is not known.
func (r *Request) wireDatatype(w *Wire) (memd.Datatype, error) {
	dt := r.Datatype
	if !w.Features.Has(memd.FeatureJSON) {
		dt &^= memd.DatatypeJSON
	}
	switch {
	case dt&memd.DatatypeSnappy != 0 && !w.Features.Has(memd.FeatureSnappy) &&
		!w.Features.Has(memd.FeatureSnappyEverywhere):
		return 0, &FeatureError{Feature: memd.FeatureSnappy}
	case dt&memd.DatatypeXattr != 0 && !w.Features.Has(memd.FeatureXattr):
		return 0, &FeatureError{Feature: memd.FeatureXattr}
	}
	if r.packed() != nil && w.Features.Has(memd.FeatureSnappy) {
		dt |= memd.DatatypeSnappy
	}
	return dt, nil
}

func (r *Request) appendFrames(frames []byte, w *Wire) ([]byte, error) {
	if !w.Features.Has(memd.FeatureAltRequest) {
		return frames, &FeatureError{Feature: memd.FeatureAltRequest}
	}
	if r.Durability != 0 {
		if !w.Features.Has(memd.FeatureSyncReplication) {
			return frames, &FeatureError{Feature: memd.FeatureSyncReplication}
		}
		frames = memd.AppendDurability(frames, r.Durability, w.DurabilityMS)
	}
	if r.PreserveExpiry {
		if !w.Features.Has(memd.FeaturePreserveTTL) {
			return frames, &FeatureError{Feature: memd.FeaturePreserveTTL}
		}
		frames, _ = memd.AppendFrame(frames, memd.FramePreserveTTL, nil)
	}
	if r.OnBehalfOf() != "" {
		var err error
		var user [MaxUserLen]byte
		if frames, err = memd.AppendFrame(frames, memd.FrameImpersonateUser,
			user[:copy(user[:], r.OnBehalfOf())]); err != nil {
			return frames, err
		}
	}
	return frames, nil
}

// wireSize is an upper bound of the request's wire form.
func (r *Request) wireSize() int {
	return memd.HeaderLen + maxReqExtras + 32 + 16 + len(r.OnBehalfOf()) + len(r.Key) + len(r.Value)
}

// appendObserved appends the value of an OBSERVE: vbucket, length, key.
func appendObserved(dst []byte, vb uint16, prefix, key []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, vb)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(prefix)+len(key)))
	return append(append(dst, prefix...), key...)
}

// appendScanCreate appends the value of a RANGE_SCAN_CREATE with the collection's id, which may change between
// attempts.
func appendScanCreate(dst, value []byte, id uint32) []byte {
	if id == 0 || len(value) == 0 {
		return append(dst, value...)
	}
	dst = append(dst, `{"collection":"`...)
	dst = strconv.AppendUint(dst, uint64(id), 16)
	dst = append(dst, `",`...)
	return append(dst, value[1:]...)
}
