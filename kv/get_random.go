package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// GetRandom reads some document of the collection. The nodes are asked in turn. A collection of which a node holds
// nothing is cberr.DocumentNotFound.
type GetRandom struct {
	Common
	// WithXattrs asks for the document with its extended attributes; the result's datatype says whether it has any,
	// and Split takes the value apart.
	WithXattrs bool
	Pinned     bool
	Node       int // with Pinned: the node's index that is asked
}

// RandomResult is the result of GetRandom. Key and Value are the caller's.
type RandomResult struct {
	Result
	Key      []byte
	Value    []byte
	Flags    uint32
	Datatype memd.Datatype
}

// encode implements Op. The collection's id goes into the extras when the request is appended.
func (g GetRandom) encode(r *call.Request) (decoder[RandomResult], error) {
	setCommon(r, &g.Common)
	r.Opcode, r.Pinned = memd.OpGetRandomKey, g.Pinned
	setNode(r, g.Node)
	if g.WithXattrs {
		r.Require(memd.Features(0).With(memd.FeatureGetRandomKeyIncludeXattr).With(memd.FeatureCollections))
		r.SetExtras([]byte{0, 0, 0, 0, 0xff})
	} else {
		r.SetExtras32(0)
	}
	return decodeGetRandom, nil
}

// decodeGetRandom makes the result of a GetRandom.
func decodeGetRandom(r *call.Response) (RandomResult, error) {
	if len(r.Extras()) < 4 {
		return RandomResult{}, call.Malformed(r, "extras", 4)
	}
	if len(r.Key()) == 0 {
		return RandomResult{}, call.Malformed(r, "key", 1)
	}
	key := r.Key()
	if r.Prefixed() {
		if id, tail, err := memd.ParseLEB128(key); err == nil && id == r.CollectionID() && len(tail) > 0 {
			key = tail
		}
	}
	return RandomResult{Result: resultOf(r), Key: key, Value: r.Value, Flags: r.Flags(), Datatype: r.Datatype}, nil
}
