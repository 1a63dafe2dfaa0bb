package mock

import (
	"github.com/couchcore/couchcore/internal/snappy"
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

// takesSnappy reports whether the connection may send and get compressed values.
func takesSnappy(f memd.Features) bool {
	return f.Has(memd.FeatureSnappy) || f.Has(memd.FeatureSnappyEverywhere)
}

// inflate replaces the request's value by what it stands for, when it is compressed.
func (rq *request) inflate() reply {
	if rq.p.Datatype&memd.DatatypeSnappy == 0 {
		return reply{}
	}
	n, err := snappy.DecodedLen(rq.value)
	if err != nil || n > maxPacket {
		return fail(memd.StatusInvalid, "Failed to inflate payload")
	}
	value := make([]byte, n)
	if err = snappy.Decode(value, rq.value); err != nil {
		return fail(memd.StatusInvalid, "Failed to inflate payload")
	}
	rq.value, rq.packed = value, true
	return reply{}
}

// pack compresses a value for the client, if that may be and the bucket wants it.
func (rq *request) pack(value []byte, dt memd.Datatype, packed bool) ([]byte, memd.Datatype) {
	mode := rq.b.compression
	if !takesSnappy(rq.features) || mode == compressOff || len(value) == 0 || !packed && (mode != compressActive ||
		len(value) < minPacked) {
		return value, dt
	}
	small := rq.b.encoder.Append(nil, value)
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
