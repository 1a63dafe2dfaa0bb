package field_test

import (
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
)

// scanner is a node that answers CONTINUE of a scan as next says.
func scanner(s *scripted.Cluster, next func(s *scripted.Session, p *memd.Packet)) {
	s.Map = func(_ *scripted.Node, bucket string) []byte {
		return s.Render(scripted.Spec{Bucket: bucket, VBuckets: 1, Caps: `"collections","rangeScan"`})
	}
	s.Nodes[0].SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		switch p.Opcode {
		case memd.OpRangeScanCreate:
			s.Reply(p, 0, nil, make([]byte, 16))
		case memd.OpRangeScanContinue:
			next(s, p)
		default:
			return false
		}
		return true
	})
}

// keys is the value of an answer that has keys only.
func keys(names ...string) (value []byte) {
	for _, name := range names {
		value = append(append(value, byte(len(name))), name...)
	}
	return value
}

// Q22: a node that says for ever that there is more, and gives nothing, is asked at a pace; the scan ends with an
// error.
func TestAScanWithoutProgressIsPacedAndEnds_D140(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(s *scripted.Session, p *memd.Packet)
		scan   kv.Scan
		items  int
		want   error
		text   string
	}{
		"more, and nothing": {want: cberr.UnambiguousTimeout, text: "no progress", answer: func(s *scripted.Session,
			p *memd.Packet,
		) {
			s.Reply(p, memd.StatusRangeScanMore, make([]byte, 4), nil)
		}},
		"the same sample again and again": {
			scan: kv.Scan{Samples: 10}, items: 1, want: cberr.UnambiguousTimeout,
			text: "no progress",
			answer: func(s *scripted.Session, p *memd.Packet) {
				s.Reply(p, memd.StatusRangeScanMore, make([]byte, 4), keys("a"))
			},
		},
		"a sample, and the scan is gone": {
			scan: kv.Scan{Samples: 10}, items: 1, want: cberr.DocumentNotFound,
			text: "KEY_ENOENT",
			answer: func(s *scripted.Session, p *memd.Packet) {
				if s.Node.Requests(memd.OpRangeScanContinue)%2 == 1 {
					s.Reply(p, memd.StatusRangeScanMore, make([]byte, 4), keys("a"))
					return
				}
				s.Reply(p, memd.StatusKeyNotFound, nil, nil)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtualScripted(t, 1, func(t *testing.T, s *scripted.Cluster, change func(*core.Config)) {
				scanner(s, c.answer)
				b := ready(t, s, change)
				c.scan.KeysOnly = true
				run, err := c.scan.Run(within(t, time.Hour), b)
				require.NoError(t, err)
				began, items := time.Now(), 0
				for run.Next(within(t, time.Hour)) {
					items++
				}
				require.ErrorIs(t, run.Err(), c.want)
				require.ErrorContains(t, run.Err(), c.text)
				require.Equal(t, c.items, items)
				require.Less(t, time.Since(began), 15*time.Second)
				n := s.Nodes[0]
				require.Less(t, n.Requests(memd.OpRangeScanContinue)+n.Requests(memd.OpRangeScanCreate), 500,
					"requests in 10 s")
				run.Close()
			})
		})
	}
}

// One that gives items goes on at full speed.
func TestAScanWithProgressIsNotPaced_D140(t *testing.T) {
	virtualScripted(t, 1, func(t *testing.T, s *scripted.Cluster, change func(*core.Config)) {
		count := uint32(0)
		scanner(s, func(s *scripted.Session, p *memd.Packet) {
			if count++; count == 1000 {
				s.Reply(p, memd.StatusRangeScanComplete, make([]byte, 4), nil)
				return
			}
			s.Reply(p, memd.StatusRangeScanMore, make([]byte, 4),
				keys(string(binary.BigEndian.AppendUint32(nil, count))))
		})
		b := ready(t, s, change)
		began := time.Now()
		run, err := kv.Scan{KeysOnly: true}.Run(within(t, time.Hour), b)
		require.NoError(t, err)
		items := 0
		for run.Next(within(t, time.Hour)) {
			items++
		}
		require.NoError(t, run.Err())
		require.Equal(t, 999, items)
		require.Zero(t, time.Since(began))
	})
}

// Q23: of a name that a document has twice the server reads the first one. So does the client when it cuts the paths
// out itself, because there are more than a request takes.
func TestOfANameThatIsThereTwiceTheFirstCounts_D136(t *testing.T) {
	const doc = `{"a":1,"b":{"x":{"y":1},"x":{"y":2}},"a":2}`
	s := scripted.New(t, 1)
	s.Nodes[0].SetHook(func(s *scripted.Session, p *memd.Packet) bool {
		if p.Opcode != memd.OpSubdocMultiLookup {
			return false
		}
		var value []byte
		for _, v := range []string{"0", doc} { // the flags, and the whole document
			value = binary.BigEndian.AppendUint16(value, 0)
			value = binary.BigEndian.AppendUint32(value, uint32(len(v)))
			value = append(value, v...)
		}
		s.Reply(p, 0, nil, value)
		return true
	})
	b := ready(t, s)
	paths := []string{"a", "b.x.y"}
	for i := range 20 {
		paths = append(paths, "missing"+strings.Repeat("x", i))
	}
	got, err := kv.Do(fresh(t), b, kv.Get{Key: []byte("k"), Paths: paths})
	require.NoError(t, err)
	var parts struct {
		A int
		B struct{ X struct{ Y int } }
	}
	require.NoError(t, json.Unmarshal(got.Value, &parts))
	require.Equal(t, 1, parts.A)
	require.Equal(t, 1, parts.B.X.Y)
}
