package sim

import (
	"encoding/json"
	"net"
	"slices"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Versions of maps: the one in use never goes back, and one that an answer has brought is used if it is newer (P8).

// version is a map's, as far as it can be compared.
type version struct {
	Epoch int64  `json:"revEpoch"`
	Rev   int64  `json:"rev"`
	UUID  string `json:"uuid"` // of the bucket: another one counts anew
	Name  string `json:"name"`
}

func (v version) older(than version) bool {
	return v.UUID == than.UUID && (v.Epoch < than.Epoch || v.Epoch == than.Epoch && v.Rev < than.Rev)
}

// used is the version of the map in use, and its nodes; false before the first.
func (w *world) used() (v version, nodes []string, ok bool) {
	m, ok := w.b.Map()
	return version{Epoch: m.Epoch, Rev: m.Rev, UUID: m.BucketUUID, Name: bucketName}, m.Nodes, ok
}

// watchMap looks at the map in use. The lock is held, so that two looks are in order.
func (w *world) watchMap() {
	v, nodes, ok := w.used()
	if !ok {
		return
	}
	if v.older(w.newest) {
		w.report.violateAt(w.since(), "P8", "%v after the beginning the map in use went back from %d:%d to %d:%d",
			w.since(), w.newest.Epoch, w.newest.Rev, v.Epoch, v.Rev)
	}
	if v != w.newest || len(w.members) == 0 {
		w.members = append(w.members, membership{w.since(), nodes})
	}
	w.newest = v
}

// membership is what nodes the maps in use have had from an instant on.
type membership struct {
	from  time.Duration
	nodes []string
}

// isMember reports whether the map that was in use at an instant had a node.
func (w *world) isMember(addr string, at time.Duration) bool {
	for _, m := range slices.Backward(w.members) {
		if m.from <= at {
			return slices.Contains(m.nodes, addr)
		}
	}
	return false
}

// staysMember reports whether all maps that were in use in a stretch of the run had a node.
func (w *world) staysMember(addr string, from, to time.Duration) bool {
	return w.isMember(addr, from) && !slices.ContainsFunc(w.members, func(m membership) bool {
		return m.from > from && m.from <= to && !slices.Contains(m.nodes, addr)
	})
}

// digests is how long the client may take to consider a map that an answer has brought.
const digests = time.Millisecond

// unused is a map that an answer has brought and that was not in use after digests.
type unused struct {
	by             *sent // the answered request
	at             time.Duration
	brought, inUse version
}

// refusal looks at the map that the answer to a request brings, if it is NOT_MY_VBUCKET.
func (w *world) refusal(s *sent, p *memd.Packet) {
	if p.Status != memd.StatusNotMyVBucket {
		return
	}
	if p.Datatype&memd.DatatypeSnappy != 0 {
		var err error
		if p.Value, err = call.Inflate(p.Value, p.Datatype, 0); err != nil {
			return
		}
	}
	var brought version
	if json.Unmarshal(p.Value, &brought) != nil || brought.Name != bucketName {
		if len(p.Value) > 0 {
			w.reached(string(movedForeign), 1)
		}
		return
	}
	if v, _, ok := w.used(); ok {
		is := movedKnown
		if v.older(brought) {
			is = movedNewer
		} else if brought.Rev == v.Rev {
			s.heading = headingFor(p.Value, s.vbucket)
		}
		w.reached(string(is), 1)
	}
	if brought.Rev >= ahead {
		return
	}
	w.later.call(digests, func() {
		if v, _, ok := w.used(); ok && v.older(brought) && !w.closing.Load() {
			w.mu.Lock()
			w.unused = append(w.unused, unused{s, w.since(), brought, v})
			w.mu.Unlock()
		}
	})
}

// headingFor is the host of the node that a vbucket moves to, by a map; "" when it does not move.
func headingFor(raw []byte, vb uint16) string {
	var m struct {
		Map struct {
			ServerList    []string
			VBucketMap    [][]int
			VBucketMapFwd [][]int `json:"vBucketMapForward"`
		} `json:"vBucketServerMap"`
	}
	if json.Unmarshal(raw, &m) != nil || int(vb) >= min(len(m.Map.VBucketMap), len(m.Map.VBucketMapFwd)) {
		return ""
	}
	now, next := m.Map.VBucketMap[vb][0], m.Map.VBucketMapFwd[vb][0]
	if next < 0 || next == now || next >= len(m.Map.ServerList) {
		return ""
	}
	host, _, _ := net.SplitHostPort(m.Map.ServerList[next])
	return host
}

// headed reports whether the client has sent a refused request to the node that its vbucket moves to, at once.
func headed(refused, next *sent) bool {
	host, _, _ := net.SplitHostPort(next.over.addr)
	return refused.heading != "" && refused.heading == host && next.at.Sub(refused.answered) < digests
}

// checkUnused judges them: the client need not look at answers to calls that have ended.
func (w *world) checkUnused() {
	for _, u := range w.unused {
		answered := u.by.answered.Sub(w.began)
		for _, e := range w.ledger {
			if e.verb.op() == u.by.same.op && e.key == u.by.same.key && e.began <= u.by.at.Sub(w.began) &&
				e.ended > answered {
				w.report.violateAt(u.at, "P8", "%v after the beginning an answer had brought the map %d:%d, and %d:%d "+
					"stayed in use: %s", u.at, u.brought.Epoch, u.brought.Rev, u.inUse.Epoch, u.inUse.Rev, e)
			}
		}
	}
}
