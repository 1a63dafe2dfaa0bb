package mock_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func TestCollectionLookups(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 4, mock.WithCollection("s", "c")))
	for node := range 2 { // any node answers
		r := loginAt(t, c, node, baseFeatures...)
		rows := []struct {
			op    memd.Opcode
			value string
			key   string
			want  memd.Status
			id    uint32
		}{
			{memd.OpCollectionsGetID, "_default._default", "", memd.StatusSuccess, 0},
			{memd.OpCollectionsGetID, ".", "", memd.StatusSuccess, 0},
			{memd.OpCollectionsGetID, "s.c", "", memd.StatusSuccess, 8},
			{memd.OpCollectionsGetID, "", "s.c", memd.StatusSuccess, 8},
			{memd.OpCollectionsGetID, "s.x", "", memd.StatusUnknownCollection, 0},
			{memd.OpCollectionsGetID, "x.c", "", memd.StatusUnknownScope, 0},
			{memd.OpCollectionsGetID, "s", "", memd.StatusInvalid, 0},
			{memd.OpCollectionsGetScopeID, "s", "", memd.StatusSuccess, 8},
			{memd.OpCollectionsGetScopeID, "_default", "", memd.StatusSuccess, 0},
			{memd.OpCollectionsGetScopeID, "x", "", memd.StatusUnknownScope, 0},
		}
		for _, row := range rows {
			p := r.call(memd.Packet{Opcode: row.op, Key: []byte(row.key), Value: []byte(row.value)})
			require.Equal(t, row.want, p.Status, "%q", row.value)
			switch row.want {
			case memd.StatusSuccess:
				require.Len(t, p.Extras, 12)
				require.EqualValues(t, 2, binary.BigEndian.Uint64(p.Extras))
				require.Equal(t, row.id, binary.BigEndian.Uint32(p.Extras[8:]))
			case memd.StatusUnknownCollection, memd.StatusUnknownScope:
				var body struct {
					UID string `json:"manifest_uid"`
				}
				require.NoError(t, json.Unmarshal(p.Value, &body))
				require.Equal(t, "2", body.UID)
			}
		}
	}
}

func TestCollectionsComeAndGo(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, baseFeatures...)
	set := func(id uint32) memd.Status {
		return r.call(memd.Packet{
			Opcode: memd.OpSet, Key: inCollection(id, []byte("k")),
			Extras: make([]byte, 8),
		}).Status
	}
	require.Equal(t, memd.StatusUnknownCollection, set(8))
	scope, err := c.CreateScope("default", "s")
	require.NoError(t, err)
	require.EqualValues(t, 8, scope)
	id, err := c.CreateCollection("default", "s", "c")
	require.NoError(t, err)
	require.EqualValues(t, 8, id)
	require.Equal(t, memd.StatusSuccess, set(id))
	require.Equal(t, "2", configOf(t, c).ManifestUID)
	_, err = c.CreateCollection("default", "s", "c")
	require.Error(t, err)
	require.NoError(t, c.DropCollection("default", "s", "c"))
	require.Equal(t, memd.StatusUnknownCollection, set(id))
	again, err := c.CreateCollection("default", "s", "c")
	require.NoError(t, err)
	require.Greater(t, again, id, "ids do not come back")
	p := r.call(memd.Packet{Opcode: memd.OpGet, Key: inCollection(again, []byte("k"))})
	require.Equal(t, memd.StatusKeyNotFound, p.Status, "nor do the documents")
	require.NoError(t, c.DropScope("default", "s"))
	require.Equal(t, memd.StatusUnknownCollection, set(again))

	var m struct {
		UID    string
		Scopes []struct {
			Name, UID   string
			Collections []struct{ Name, UID string }
		}
	}
	p = r.call(memd.Packet{Opcode: memd.OpCollectionsGetManifest})
	require.NoError(t, json.Unmarshal(p.Value, &m))
	require.Equal(t, "5", m.UID)
	require.Len(t, m.Scopes, 1)
	require.Equal(t, "_default", m.Scopes[0].Collections[0].Name)

	for _, err := range []error{
		c.DropScope("default", "_default"), c.DropScope("default", "s"), c.DropScope("nope", "s"),
		c.DropCollection("default", "s", "c"), c.DropCollection("default", "_default", "x"),
	} {
		require.Error(t, err)
	}
	_, err = c.CreateScope("default", "_system")
	require.Error(t, err)
	_, err = c.CreateScope("default", "a b")
	require.Error(t, err)
	require.NoError(t, c.DropCollection("default", "_default", "_default"))
	require.Equal(t, memd.StatusUnknownCollection, set(0))
	_, err = c.CreateCollection("default", "_default", "_default")
	require.Error(t, err)
}

// A node that lags behind knows what was dropped and does not know what was created, and says of which manifest it is.
func TestANodeLagsBehindWithTheManifest(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 1))
	ahead, behind := login(t, c, baseFeatures...), loginAt(t, c, 1, baseFeatures...)
	old, err := c.CreateCollection("default", "s", "c")
	require.NoError(t, err)
	require.NoError(t, c.SetManifestLag("", true, 1))
	require.NoError(t, c.DropCollection("default", "s", "c"))
	id, err := c.CreateCollection("default", "s", "c")
	require.NoError(t, err)

	lookUp := func(on *raw) (uid uint64, id uint32) {
		p := on.call(memd.Packet{Opcode: memd.OpCollectionsGetID, Value: []byte("s.c")})
		require.Equal(t, memd.StatusSuccess, p.Status)
		return binary.BigEndian.Uint64(p.Extras), binary.BigEndian.Uint32(p.Extras[8:])
	}
	get := func(on *raw, id uint32) memd.Packet {
		return on.call(memd.Packet{Opcode: memd.OpGet, Key: inCollection(id, []byte("k"))})
	}
	uid, got := lookUp(ahead)
	require.Equal(t, id, got)
	lag, got := lookUp(behind)
	require.Equal(t, old, got)
	require.Less(t, lag, uid)
	p := get(behind, id)
	require.Equal(t, memd.StatusUnknownCollection, p.Status)
	require.Contains(t, string(p.Value), fmt.Sprintf(`"manifest_uid":"%x"`, lag))
	require.Equal(t, memd.StatusNotMyVBucket, get(behind, old).Status, "it knows that one")
	require.Equal(t, memd.StatusUnknownCollection, get(ahead, old).Status)

	require.NoError(t, c.SetManifestLag("default", false))
	require.Equal(t, memd.StatusNotMyVBucket, get(behind, id).Status)
	require.Equal(t, memd.StatusUnknownCollection, get(behind, old).Status)
}
