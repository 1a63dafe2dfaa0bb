package field_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
)

// What a server says beside a status is printed as far as it says it.
func TestAnErrorPrintsNoEmptyReference_D124(t *testing.T) {
	s := scripted.New(t, 1)
	b := ready(t, s)
	for body, want := range map[string]string{
		`{"error":{"context":"why"}}`:             "status 0x04 EINVAL (Context: why)",
		`{"error":{"ref":"4711"}}`:                "status 0x04 EINVAL (Ref #: 4711)",
		`{"error":{"context":"why","ref":"471"}}`: "status 0x04 EINVAL (Context: why, Ref #: 471)",
		`{}`: "status 0x04 EINVAL",
	} {
		s.Nodes[0].SetHook(func(s *scripted.Session, p *memd.Packet) bool {
			if p.Opcode != memd.OpGet {
				return false
			}
			s.ReplyTyped(p, memd.StatusInvalid, memd.DatatypeJSON, nil, []byte(body))
			return true
		})
		_, err := kv.Do(fresh(t), b, kv.Get{Key: []byte("k")})
		require.Error(t, err)
		require.Regexp(t, `: `+regexp.QuoteMeta(want)+`$`, err.Error())
	}
}
