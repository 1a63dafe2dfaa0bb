package field_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
)

// packed is the Snappy block form of b, as one literal.
func packed(b string) []byte {
	out := binary.AppendUvarint(nil, uint64(len(b)))
	out = append(out, 61<<2, byte(len(b)-1), byte((len(b)-1)>>8))
	return append(out, b...)
}

// claims is a value that says it is compressed and claims to have 4 GiB.
var claims = binary.AppendUvarint(nil, 4<<30-1)

// sendPacked answers a request with a compressed value.
func sendPacked(s *scripted.Session, p *memd.Packet, status memd.Status, dt memd.Datatype, value string) {
	s.ReplyTyped(p, status, dt|memd.DatatypeSnappy, nil, packed(value))
}

// F10: a server that has granted SnappyEverywhere may compress any body. Each is inflated before it is looked at.
func TestEveryCompressedBodyIsInflated_D134(t *testing.T) {
	const refusal = `{"manifest_uid":"1f","error":{"context":"what it says","ref":"r1"}}`
	s := scripted.New(t, 1)
	s.Nodes[0].SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		switch p.Opcode {
		case memd.OpGetErrorMap:
			sendPacked(s, p, 0, memd.DatatypeJSON, `{"version":2,"revision":1,"errors":{"7ff0":{"name":"PACKED","desc":"from the map","attrs":["item-only"]}}}`)
		case memd.OpStat:
			for _, name := range []string{"one", "two"} {
				s.Send(memd.Packet{
					Magic: memd.MagicRes, Opcode: p.Opcode, Opaque: p.Opaque, Key: []byte(name),
					Datatype: memd.DatatypeSnappy, Value: packed("the value of " + name),
				})
			}
			s.Reply(p, 0, nil, nil)
		case memd.OpSubdocMultiMutation:
			sendPacked(s, p, memd.StatusSubdocMultiPathFailure, 0, "\x01\x00\xc0")
		case memd.OpReplace:
			sendPacked(s, p, memd.StatusInvalid, memd.DatatypeJSON, refusal)
		case memd.OpDelete:
			s.Reply(p, 0x7ff0, nil, nil)
		case memd.OpVersion:
			sendPacked(s, p, 0, 0, "8.0.0")
		case memd.OpGetFailoverLog:
			sendPacked(s, p, 0, 0, string(make([]byte, 32)))
		case memd.OpCollectionsGetID:
			sendPacked(s, p, memd.StatusUnknownScope, memd.DatatypeJSON, refusal)
		default:
			return false
		}
		return true
	})
	b := ready(t, s)

	stats, err := kv.Do(fresh(t), b, kv.Stat{})
	require.NoError(t, err)
	require.Equal(t, []struct{ Name, Value string }{{"one", "the value of one"}, {"two", "the value of two"}},
		stats.Stats)

	_, err = kv.Do(fresh(t), b, kv.MutateIn{Key: []byte("k"), Specs: []kv.MutateSpec{
		kv.UpsertPath("a", []byte("1")),
		kv.ReplacePath("b", []byte("1")),
	}})
	require.ErrorIs(t, err, cberr.PathNotFound)
	var path *kv.PathError
	require.ErrorAs(t, err, &path)
	require.Equal(t, kv.PathError{Index: 1, Path: "b", Status: memd.StatusSubdocPathNotFound, Kind: cberr.PathNotFound},
		*path)

	_, err = kv.Do(fresh(t), b, kv.Replace{Key: []byte("k")})
	require.ErrorContains(t, err, "(Context: what it says, Ref #: r1)")
	_, err = kv.Do(fresh(t), b, kv.Remove{Key: []byte("k")})
	require.ErrorContains(t, err, "PACKED, from the map")
	_, err = kv.Do(fresh(t), b, kv.Get{
		Common: kv.Common{Scope: "s", Collection: "c", Timeout: time.Second},
		Key:    []byte("k"),
	})
	require.ErrorIs(t, err, cberr.ScopeNotFound)
	require.ErrorContains(t, err, "what it says")

	v, err := kv.Do(fresh(t), b, kv.GetVersion{})
	require.NoError(t, err)
	require.Equal(t, "8.0.0", string(v.Value))
	log, err := kv.Do(fresh(t), b, kv.GetFailoverLog{})
	require.NoError(t, err)
	require.Len(t, log.Entries, 2)
}

// The handshake's bodies, too: what HELLO grants, why a bucket is refused.
func TestTheHandshakesCompressedBodiesAreInflated_D134(t *testing.T) {
	s := scripted.New(t, 1)
	n := s.Nodes[0]
	n.SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		switch p.Opcode {
		case memd.OpHello:
			sendPacked(s, p, 0, 0, string(memd.AppendFeatures(nil, memd.FeatureXError, memd.FeatureJSON,
				memd.FeatureSnappy)))
		case memd.OpSASLListMechs:
			sendPacked(s, p, 0, 0, "SCRAM-SHA512 PLAIN")
		case memd.OpSelectBucket:
			sendPacked(s, p, memd.StatusAccess, memd.DatatypeJSON, `{"error":{"context":"not for you"}}`)
		default:
			return false
		}
		return true
	})
	b := open(t, s).Bucket("default")
	err := b.WaitReady(within(t, 2*time.Second))
	require.ErrorIs(t, err, cberr.BucketAccess)
	require.ErrorContains(t, err, "not for you")
}

// A body that claims more than its limit, or is corrupt, costs its own call, and no memory.
func TestCompressedBodiesAreBounded_D134(t *testing.T) {
	s := scripted.New(t, 1)
	s.Nodes[0].SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		switch p.Opcode {
		case memd.OpGetErrorMap:
			s.ReplyTyped(p, 0, memd.DatatypeSnappy|memd.DatatypeJSON, nil, claims)
		case memd.OpStat:
			s.Send(memd.Packet{
				Magic: memd.MagicRes, Opcode: p.Opcode, Opaque: p.Opaque, Key: []byte("a"),
				Datatype: memd.DatatypeSnappy, Value: claims,
			})
			s.Reply(p, 0, nil, nil)
		case memd.OpSubdocMultiMutation:
			s.ReplyTyped(p, memd.StatusSubdocMultiPathFailure, memd.DatatypeSnappy, nil, claims)
		case memd.OpReplace:
			s.ReplyTyped(p, memd.StatusInvalid, memd.DatatypeSnappy|memd.DatatypeJSON, nil, claims)
		default:
			return false
		}
		return true
	})
	b := ready(t, s)
	_, err := kv.Do(fresh(t), b, kv.Stat{})
	var ce *kv.CompressionError
	require.ErrorAs(t, err, &ce)
	require.ErrorIs(t, err, cberr.DecodingFailure)
	_, err = kv.Do(fresh(t), b, kv.MutateIn{Key: []byte("k"), Specs: []kv.MutateSpec{kv.UpsertPath("a", []byte("1"))}})
	require.ErrorContains(t, err, "SUBDOC_MULTI_PATH_FAILURE")
	_, err = kv.Do(fresh(t), b, kv.Replace{Key: []byte("k")})
	require.ErrorIs(t, err, cberr.InvalidArgument)
	require.NoError(t, upsert(t, b))
	require.Len(t, s.Nodes[0].Sessions(), 1)
}
