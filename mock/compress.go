package mock

import (
	"github.com/klauspost/compress/s2"

	"github.com/couchcore/couchcore/memd"
)

// compression is what a bucket does about compressed values.
type compression uint8

const (
	compressPassive compression = iota // keeps them as they come
	compressOff                        // stores them inflated
	compressActive                     // compresses by itself, too
)

// compressionModes are the names of the modes.
var compressionModes = map[string]compression{"passive": compressPassive, "off": compressOff, "active": compressActive}

// minPacked is the smallest value that a bucket compresses by itself.
const minPacked = 64

// snappy reports whether the connection may send and get compressed values.
func snappy(f memd.Features) bool {
	return f.Has(memd.FeatureSnappy) || f.Has(memd.FeatureSnappyEverywhere)
}

// inflate replaces the request's value by what it stands for, when it is compressed.
func (rq *request) inflate() reply {
	if rq.p.Datatype&memd.DatatypeSnappy == 0 {
		return reply{}
	}
	n, err := s2.DecodedLen(rq.value)
	switch {
	case err != nil || n > maxPacket:
		return fail(memd.StatusInvalid, "Failed to inflate payload")
	case len(rq.value) == 0:
		return reply{}
	}
	value, err := s2.Decode(make([]byte, 0, n), rq.value)
	if err != nil {
		return fail(memd.StatusInvalid, "Failed to inflate payload")
	}
	rq.value, rq.packed = value, true
	return reply{}
}

// pack compresses a value for the client, if that may be and the bucket wants it.
func (rq *request) pack(value []byte, dt memd.Datatype, packed bool) ([]byte, memd.Datatype) {
	mode := rq.b.compression
	if !snappy(rq.features) || mode == compressOff || len(value) == 0 || !packed && (mode != compressActive ||
		len(value) < minPacked) {
		return value, dt
	}
	small := s2.EncodeSnappy(nil, value)
	if !packed && len(small) >= len(value) {
		return value, dt
	}
	return small, dt | memd.DatatypeSnappy
}

// packConfig compresses a configuration for a client that understands that everywhere, when the bucket compresses.
func (rq *request) packConfig(rep *reply) {
	if rq.b == nil || rq.b.compression != compressActive || !rq.features.Has(memd.FeatureSnappyEverywhere) {
		return
	}
	rep.value, rep.datatype = rq.pack(rep.value, rep.datatype, false)
}
