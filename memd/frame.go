package memd

import (
	"encoding/binary"
	"errors"
	"math"
)

// FrameID names a frame info. Requests and responses have a table of their own each.
type FrameID uint16

// Frame infos of requests.
const (
	FrameBarrier         FrameID = 0
	FrameDurability      FrameID = 1
	FrameDCPStreamID     FrameID = 2
	FrameOpenTracing     FrameID = 3 // a prototype that no server accepts
	FrameImpersonateUser FrameID = 4
	FramePreserveTTL     FrameID = 5
	FrameImpersonatePriv FrameID = 6
	FrameImpersonateAuth FrameID = 7
)

// Frame infos of responses.
const (
	FrameServerDuration   FrameID = 0
	FrameReadUnits        FrameID = 1
	FrameWriteUnits       FrameID = 2
	FrameThrottleDuration FrameID = 3
)

// ErrFrames means that a frame info claims more bytes than there are.
var ErrFrames = errors.New("memd: framing extras overrun")

// maxEscaped is the largest id and the largest length that a nibble of 15 and its escape byte can say.
const maxEscaped = 15 + 255

// AppendFrame appends one frame info. Ids and lengths of 15 and more take their escape byte; both end at 270, and
// dst comes back unchanged with an EncodeError beyond that.
func AppendFrame(dst []byte, id FrameID, data []byte) ([]byte, error) {
	if id > maxEscaped {
		return dst, &EncodeError{"frame id", int(id), maxEscaped}
	}
	if len(data) > maxEscaped {
		return dst, &EncodeError{"frame length", len(data), maxEscaped}
	}
	hi, lo := int(id), len(data)
	control := byte(min(hi, 15))<<4 | byte(min(lo, 15))
	dst = append(dst, control)
	if hi >= 15 {
		dst = append(dst, byte(hi-15))
	}
	if lo >= 15 {
		dst = append(dst, byte(lo-15))
	}
	return append(dst, data...), nil
}

// NextFrame takes the first frame info off frames. data and rest alias frames. It fails with ErrFrames when the
// frame runs over the end; on success rest is always shorter than frames.
func NextFrame(frames []byte) (id FrameID, data, tail []byte, err error) {
	if len(frames) == 0 {
		return 0, nil, nil, ErrFrames
	}
	hi, lo := int(frames[0]>>4), int(frames[0]&15)
	i := 1
	if hi == 15 {
		if i >= len(frames) {
			return 0, nil, nil, ErrFrames
		}
		hi += int(frames[i])
		i++
	}
	if lo == 15 {
		if i >= len(frames) {
			return 0, nil, nil, ErrFrames
		}
		lo += int(frames[i])
		i++
	}
	if i+lo > len(frames) {
		return 0, nil, nil, ErrFrames
	}
	return FrameID(hi), frames[i : i+lo : i+lo], frames[i+lo:], nil
}

// DurabilityLevel is what a synchronous write waits for. Zero means no durability and never stands on the wire.
type DurabilityLevel uint8

// Durability levels (kv_engine, BinaryProtocol.md).
const (
	DurabilityNone                       DurabilityLevel = 0
	DurabilityMajority                   DurabilityLevel = 1
	DurabilityMajorityAndPersistToActive DurabilityLevel = 2
	DurabilityPersistToMajority          DurabilityLevel = 3
)

func (l DurabilityLevel) String() string {
	switch l {
	case DurabilityNone:
		return "none"
	case DurabilityMajority:
		return "majority"
	case DurabilityMajorityAndPersistToActive:
		return "majority_and_persist_active"
	case DurabilityPersistToMajority:
		return "persist_majority"
	}
	return "unknown"
}

// AppendDurability appends the durability frame. A timeout of 0 ms leaves the server's default; others are clamped to
// 65534, because 65535 is reserved.
func AppendDurability(dst []byte, level DurabilityLevel, timeoutMS uint32) []byte {
	if timeoutMS == 0 {
		return append(dst, byte(FrameDurability)<<4|1, byte(level))
	}
	dst = append(dst, byte(FrameDurability)<<4|3, byte(level))
	return binary.BigEndian.AppendUint16(dst, uint16(min(timeoutMS, 65534)))
}

// ParseDurability reads a durability frame's data: one byte of level, or level and timeout. ok is false for any other
// length.
func ParseDurability(data []byte) (level DurabilityLevel, timeoutMS uint16, ok bool) {
	switch len(data) {
	case 1:
		return DurabilityLevel(data[0]), 0, true
	case 3:
		return DurabilityLevel(data[0]), binary.BigEndian.Uint16(data[1:]), true
	}
	return 0, 0, false
}

// EncodeServerDuration turns microseconds into the 16-bit code of FrameServerDuration, rounding and clamping at about
// two minutes.
func EncodeServerDuration(micros float64) uint16 {
	if !(micros > 0) { // also not a number
		return 0
	}
	return uint16(min(math.Round(math.Pow(min(micros, 120125042)*2, 1/1.74)), 65535))
}

// DecodeServerDuration turns the code of FrameServerDuration into microseconds.
func DecodeServerDuration(code uint16) float64 {
	return math.Pow(float64(code), 1.74) / 2
}
