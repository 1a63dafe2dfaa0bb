package memd

import "strings"

// Datatype is a set of bits that tells how a value is coded.
type Datatype uint8

// The three datatype bits.
const (
	DatatypeJSON   Datatype = 0x01
	DatatypeSnappy Datatype = 0x02
	DatatypeXattr  Datatype = 0x04
)

func (d Datatype) String() string {
	if d == 0 {
		return "raw"
	}
	var names []string
	for _, b := range []struct {
		bit  Datatype
		name string
	}{{DatatypeJSON, "json"}, {DatatypeSnappy, "snappy"}, {DatatypeXattr, "xattr"}} {
		if d&b.bit != 0 {
			names = append(names, b.name)
		}
	}
	if d&^(DatatypeJSON|DatatypeSnappy|DatatypeXattr) != 0 {
		names = append(names, "unknown")
	}
	return strings.Join(names, ",")
}
