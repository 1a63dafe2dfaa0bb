package sim

import (
	"encoding/json"

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
		{"44 pushed: the whole cluster's map", "", func(m map[string]any) {
			for _, name := range []string{
				"name", "uuid", "nodeLocator", "vBucketServerMap", "nodes",
				"bucketCapabilities",
			} {
				delete(m, name)
			}
		}, nil},
		{"45 pushed: the map of another bucket", "other", func(m map[string]any) {
			// which alone tells it apart: with another UUID the client would begin anew, and get well
			m["name"] = "other"
			elsewhere(m)
		}, nil},
		{"46 pushed: a newer map without vbuckets", bucketName, func(m map[string]any) {
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

// wrongMapFaults bring each kind in a push, where nodes push whole maps, and with the answers to some requests.
func wrongMapFaults() (fs []fault) {
	for _, k := range wrongMaps() {
		fs = append(fs, fault{k.name, func(w *world, r *source, addr string) func() int {
			config, epoch, rev := k.text(w)
			if config == nil {
				return func() int { return 0 }
			}
			node := 0
			for i, n := range w.m.Nodes() {
				if n.Addr() == addr {
					node = i
				}
			}
			pushed := w.m.PushMap(node, k.key, epoch, rev, config)
			in := w.m.Inject(mock.Match{Nodes: []int{node}, Opcodes: documentOps(), Skip: r.below(10), Times: 1 +
				r.below(3)},
				mock.NotMyVBucket(true, config))
			return func() int {
				in.Remove()
				if used, ok := w.b.Map(); ok && used.Rev >= ahead {
					w.report.violate("P9", "the map of revision %d is in use, which the cluster has not made", used.Rev)
				}
				return pushed + in.Fired()
			}
		}})
	}
	return fs
}
