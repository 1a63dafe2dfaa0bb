package kv

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// GetManifest asks a node for the bucket's scopes and collections. Any node answers, or the one with index Node when
// Pinned is set.
type GetManifest struct {
	Common
	Pinned bool
	Node   int
}

// Manifest is a bucket's scopes and collections, as one node knows them or, without a Result and JSON, as the cluster
// manager does.
type Manifest struct {
	Result
	UID    uint64 // grows with every change
	Scopes []ManifestScope
	JSON   []byte // as the node gave it
}

// ManifestScope is a scope with its collections.
type ManifestScope struct {
	Name        string
	ID          uint32
	Collections []ManifestCollection
}

// ManifestCollection is a collection. MaxExpiry is 0 when it inherits the bucket's and negative when its documents do
// not expire unless they say so.
type ManifestCollection struct {
	Name      string
	ID        uint32
	MaxExpiry time.Duration
	History   bool
}

// encode implements Op.
func (g GetManifest) encode(r *call.Request) (decoder[Manifest], error) {
	setCommon(r, &g.Common)
	r.Opcode, r.Pinned = memd.OpCollectionsGetManifest, g.Pinned
	setNode(r, g.Node)
	return decodeGetManifest, nil
}

type manifestJSON struct {
	UID    string `json:"uid"`
	Scopes []struct {
		Name        string `json:"name"`
		UID         string `json:"uid"`
		Collections []struct {
			Name    string `json:"name"`
			UID     string `json:"uid"`
			MaxTTL  int64  `json:"maxTTL"`
			History bool   `json:"history"`
		} `json:"collections"`
	} `json:"scopes"`
}

// decodeGetManifest makes the result of a GetManifest.
func decodeGetManifest(r *call.Response) (Manifest, error) {
	m := Manifest{Result: resultOf(r), JSON: r.Value}
	if err := json.Unmarshal(r.Value, &m); err != nil {
		return Manifest{Result: resultOf(r), JSON: r.Value}, err
	}
	return m, nil
}

// UnmarshalJSON reads what a node or the cluster manager says: it sets UID and Scopes.
func (m *Manifest) UnmarshalJSON(raw []byte) (err error) {
	var j manifestJSON
	if err := json.Unmarshal(raw, &j); err != nil {
		return err
	}
	m.Scopes = nil
	if m.UID, err = strconv.ParseUint(j.UID, 16, 64); err != nil {
		return err
	}
	for _, s := range j.Scopes {
		id, err := strconv.ParseUint(s.UID, 16, 32)
		if err != nil {
			return err
		}
		scope := ManifestScope{Name: s.Name, ID: uint32(id)}
		for _, c := range s.Collections {
			id, err := strconv.ParseUint(c.UID, 16, 32)
			if err != nil {
				return err
			}
			ttl := min(max(c.MaxTTL, -1), 1<<32-1)
			scope.Collections = append(scope.Collections, ManifestCollection{
				Name: c.Name, ID: uint32(id), MaxExpiry: time.Duration(ttl) * time.Second, History: c.History,
			})
		}
		m.Scopes = append(m.Scopes, scope)
	}
	return nil
}

// ManifestAll asks every node that holds the bucket's data for its manifest, all at once: nodes that lag show. A node
// that fails has its error beside the others' manifests; the call itself fails only when the nodes are not known. The
// result is by the node's index.
func ManifestAll(ctx context.Context, d Dispatcher, op GetManifest) (map[int]Outcome[Manifest], error) {
	return onEachNode[Manifest](ctx, d, memd.OpCollectionsGetManifest, &op.Common, func(node int) GetManifest {
		op.Pinned, op.Node = true, node
		return op
	})
}

// GetScopeID asks a node for the id of a scope. A missing one is cberr.ScopeNotFound. Common's scope is not looked up:
// Name says what is asked for.
type GetScopeID struct {
	Common
	Name   string
	Pinned bool
	Node   int
}

// encode implements Op.
func (g GetScopeID) encode(r *call.Request) (decoder[IDResult], error) {
	setCommon(r, &g.Common)
	r.Opcode, r.Value, r.Pinned = memd.OpCollectionsGetScopeID, []byte(g.Name), g.Pinned
	setNode(r, g.Node)
	return idOf, nil
}
