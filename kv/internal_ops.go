package kv

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/memd"
)

// GetCollectionID asks a node for the id of a collection. A missing one is cberr.ScopeNotFound or
// cberr.CollectionNotFound. Common's scope and collection are not looked up: Path says what is asked for.
type GetCollectionID struct {
	Common
	Path   string // "scope.collection"
	Pinned bool
	Node   int
}

// CollectionID is the result of GetCollectionID.
type CollectionID struct {
	Result
	ManifestUID uint64
	ID          uint32
}

// Encode implements Op.
func (g GetCollectionID) Encode(r *Request) error {
	r.Common, r.Opcode, r.Value, r.Pinned, r.Node = g.Common, memd.OpCollectionsGetID, []byte(g.Path), g.Pinned, g.Node
	return nil
}

// Decode implements Op.
func (g GetCollectionID) Decode(r *Response) (CollectionID, error) {
	if r.extrasLen != 12 {
		return CollectionID{}, malformed(r, "extras", 12)
	}
	return CollectionID{
		Result: r.Result, ManifestUID: binary.BigEndian.Uint64(r.extras[:]),
		ID: binary.BigEndian.Uint32(r.extras[8:]),
	}, nil
}

// GetClusterConfig asks a node for its cluster map. With a known version (1 or higher) a node that has nothing newer
// answers with an empty value.
type GetClusterConfig struct {
	Common
	Pinned               bool
	Node                 int
	KnownEpoch, KnownRev int64
	Connection           string // that must carry the request, as Result.Connection names it; "" means any
}

// ClusterConfig is the result of GetClusterConfig: the map's JSON, or nothing.
type ClusterConfig struct {
	Result
	JSON []byte
}

// Encode implements Op.
func (g GetClusterConfig) Encode(r *Request) error {
	r.Common, r.Opcode, r.Pinned, r.Node = g.Common, memd.OpGetClusterConfig, g.Pinned, g.Node
	r.Connection = g.Connection
	if g.KnownEpoch > 0 && g.KnownRev > 0 {
		binary.BigEndian.PutUint64(r.extras[0:], uint64(g.KnownEpoch))
		binary.BigEndian.PutUint64(r.extras[8:], uint64(g.KnownRev))
		r.extrasLen = 16
	}
	return nil
}

// Decode implements Op.
func (g GetClusterConfig) Decode(r *Response) (ClusterConfig, error) {
	return ClusterConfig{Result: r.Result, JSON: r.Value}, nil
}
