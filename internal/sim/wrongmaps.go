package sim

import (
	"encoding/json"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Wrong maps: newer than any that the cluster makes, and not to be used. A client that has taken one says so when it is
// asked for its map, and may take none of the cluster's own any more, so that its calls fail when the faults are over
// (both P9).

// ahead is how many revisions a wrong map is ahead of the cluster's own. A run has fewer.
const ahead = 1 << 20

// wrongMap is one kind of them.
type wrongMap struct {
	name   string
	key    string // of a push
	change func(m map[string]any)
	// version is that of the map; nil: a newer one than the cluster's
	version func(epoch, rev int64) (int64, int64)
}

func wrongMaps() []wrongMap {
	return []wrongMap{
		{"39 pushed: the whole cluster's map", "", func(m map[string]any) {
			for _, name := range []string{
				"name", "uuid", "nodeLocator", "vBucketServerMap", "nodes",
				"bucketCapabilities",
			} {
				delete(m, name)
			}
		}, nil},
		{"39 pushed: the map of another bucket", "other", func(m map[string]any) {
			// which alone tells it apart: with another UUID the client would begin anew, and get well
			m["name"] = "other"
			elsewhere(m)
		}, nil},
		{"39 pushed: a newer map without vbuckets", bucketName, func(m map[string]any) {
			m["vBucketServerMap"] = map[string]any{
				"hashAlgorithm": "CRC", "numReplicas": 0, "serverList": []string{}, "vBucketMap": [][]int{},
			}
		}, nil},
		{"39 pushed: an older map", bucketName, elsewhere, func(epoch, rev int64) (int64, int64) {
			return epoch, rev - 1
		}},
		{"39 pushed: a map of an older epoch", bucketName, elsewhere, func(epoch, rev int64) (int64, int64) {
			return epoch - 1, rev + ahead
		}},
	}
}

// elsewhere has a map's documents on other nodes.
func elsewhere(m map[string]any) {
	table, _ := m["vBucketServerMap"].(map[string]any)
	nodes, _ := table["serverList"].([]any)
	table["serverList"] = append(nodes[1:], nodes[0])
}

// text is the wrong map's JSON.
func (k *wrongMap) text(w *world) (config []byte, epoch, rev int64) {
	var m map[string]any
	epoch, rev = w.m.Revision()
	if k.version != nil {
		epoch, rev = k.version(epoch, rev)
	} else {
		rev += ahead
	}
	if rev <= 0 || epoch <= 0 || json.Unmarshal(w.m.ConfigJSON(bucketName), &m) != nil {
		return nil, 0, 0 // there is no older one, or the bucket is gone at the moment
	}
	k.change(m)
	m["rev"], m["revEpoch"] = rev, epoch
	config, _ = json.Marshal(m) // what was JSON is JSON again
	return config, epoch, rev
}

// poorMaps are newer maps, which the client is to use, without nodes for some of the vbuckets, as when several nodes
// were failed over. The end of it is a map of the cluster's own.
func poorMaps() fault {
	return fault{name: "39 no node for some vbuckets", begin: func(w *world, r *source, addr string) func() int {
		var m map[string]any
		_, rev := w.m.Revision()
		if json.Unmarshal(w.m.ConfigJSON(bucketName), &m) != nil {
			return func() int { return 0 }
		}
		table, _ := m["vBucketServerMap"].(map[string]any)
		rows, _ := table["vBucketMap"].([]any)
		for i := range rows {
			if row, ok := rows[i].([]any); ok && i > 0 && r.below(2) == 0 { // a map without any node is not to be used
				row[0] = -1
			}
		}
		m["rev"] = rev + 1
		config, _ := json.Marshal(m) // what was JSON is JSON again
		in := w.m.Inject(mock.Match{Nodes: w.nodesAt(addr), Opcodes: documentOps(), Times: 1},
			mock.NotMyVBucket(true, config))
		return func() int {
			in.Remove()
			for range 2 {
				w.m.BumpRevision()
			}
			return in.Fired()
		}
	}}
}

// unreadiness is what a run keeps of the maps without vbuckets that it begins with.
type unreadiness struct {
	in         *mock.Injection
	given      bool
	epoch, rev int64 // of the nodes' own map when they gave the last one
}

// emptyAtFirst has nodes answer the first questions about the map with one that has no vbuckets yet, as of a bucket
// that was just made, in the runs that begin so. A short run may end before all of these questions have come, and
// before a node has told of a newer map: see readyAtLast.
func (w *world) emptyAtFirst() {
	if w.unready == 0 || w.leavesOut(emptyMap) {
		return
	}
	w.m.BumpRevision()
	w.empty.in = w.m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGetClusterConfig}, Times: w.unready},
		mock.Rewrite(func(_, rep *memd.Packet) {
			var m map[string]any
			if rep.Status != memd.StatusSuccess || json.Unmarshal(rep.Value, &m) != nil {
				return
			}
			m["vBucketServerMap"] = map[string]any{
				"hashAlgorithm": "CRC", "numReplicas": 0, "serverList": []string{}, "vBucketMap": [][]int{},
			}
			epoch, rev := w.m.Revision()
			m["rev"] = rev - 1
			rep.Value, _ = json.Marshal(m) // what was JSON is JSON again
			w.mu.Lock()
			w.empty.given, w.empty.epoch, w.empty.rev = true, epoch, rev
			w.mu.Unlock()
			w.fired(emptyMap, 1)
		}))
}

// readyAtLast ends that. A node tells of the map that has vbuckets as soon as it has it, and a client that is told of
// maps does not ask for one. The nodes of the mock had that map when they gave the one without, so that they tell of it
// only with the next change of the cluster. Where there was none, and the client waits for it, they tell of it now.
func (w *world) readyAtLast() {
	if w.empty.in == nil {
		return
	}
	w.empty.in.Remove()
	epoch, rev := w.m.Revision()
	w.mu.Lock()
	untold := w.empty.given && w.empty.epoch == epoch && w.empty.rev == rev
	w.mu.Unlock()
	if used, ok := w.b.Map(); untold && (!ok || used.VBuckets == 0) {
		w.m.Push()
	}
}

// emptyMap is the name of what only some runs begin with.
const emptyMap = "42 the first maps have no vbuckets"

// incarnation is the UUID of the bucket, "" when it is gone at the moment.
func (w *world) incarnation() string {
	var m struct{ UUID string }
	_ = json.Unmarshal(w.m.ConfigJSON(bucketName), &m) // which leaves it empty when it fails
	return m.UUID
}

// wrongMapFaults bring each kind in a push, where nodes push whole maps, and with the answers to some requests.
func wrongMapFaults() (fs []fault) {
	for _, k := range wrongMaps() {
		fs = append(fs, fault{name: k.name, begin: func(w *world, r *source, addr string) func() int {
			config, epoch, rev := k.text(w)
			// a map without vbuckets is as good as another one, which is all that the client has at first
			used, ok := w.b.Map()
			if config == nil || !ok || used.VBuckets == 0 {
				return func() int { return 0 }
			}
			node := 0
			for i, n := range w.m.Nodes() {
				if w.addr(n) == addr {
					node = i
				}
			}
			pushed := w.m.PushMap(node, k.key, epoch, rev, config)
			in := w.m.Inject(mock.Match{Nodes: []int{node}, Opcodes: documentOps(), Skip: r.below(10), Times: 1 +
				r.below(3)},
				mock.NotMyVBucket(true, config))
			bucket, before := w.incarnation(), used.BucketUUID
			return func() int {
				in.Remove()
				// a client that has the bucket's predecessor still, or has its successor already, cannot tell its age
				same := before == bucket && bucket == w.incarnation()
				if used, ok := w.b.Map(); ok && used.Rev >= ahead && same {
					w.report.violate("P9", "the map of revision %d is in use, which the cluster has not made", used.Rev)
				}
				return pushed + in.Fired()
			}
		}})
	}
	return fs
}
