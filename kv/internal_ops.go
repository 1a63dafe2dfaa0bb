package kv

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/internal/call"
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

// IDResult is the result of GetCollectionID and of GetScopeID.
type IDResult struct {
	Result
	ManifestUID uint64
	ID          uint32
}

func idOf(r *call.Response) (IDResult, error) {
	manifestUID, id, err := call.IDOf(r)
	if err != nil {
		return IDResult{}, err
	}
	return IDResult{Result: resultOf(r), ManifestUID: manifestUID, ID: id}, nil
}

// encode implements Op.
func (g GetCollectionID) encode(r *call.Request) (decoder[IDResult], error) {
	setCommon(r, &g.Common)
	r.Opcode, r.Value, r.Pinned = memd.OpCollectionsGetID, []byte(g.Path), g.Pinned
	setNode(r, g.Node)
	return idOf, nil
}

// GetClusterConfig asks a node for its cluster map. With a known version (1 or higher) a node that has nothing newer
// answers with an empty value. The result's Value is the map's JSON.
type GetClusterConfig struct {
	Common
	Pinned               bool
	Node                 int
	KnownEpoch, KnownRev int64
	Connection           string // that must carry the request, as Result.Connection names it; "" means any
}

// encode implements Op.
func (g GetClusterConfig) encode(r *call.Request) (decoder[GetResult], error) {
	setCommon(r, &g.Common)
	r.Opcode, r.Pinned = memd.OpGetClusterConfig, g.Pinned
	setNode(r, g.Node)
	setConnection(r, g.Connection)
	if g.KnownEpoch > 0 && g.KnownRev > 0 {
		var extras [16]byte
		binary.BigEndian.PutUint64(extras[0:], uint64(g.KnownEpoch))
		binary.BigEndian.PutUint64(extras[8:], uint64(g.KnownRev))
		r.SetExtras(extras[:])
	}
	return valueResult, nil
}
