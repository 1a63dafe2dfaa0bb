package management

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

const mebibyte = 1 << 20

// bucketObject is a bucket in the long form: the short configuration without its list of nodes, and all that
// menelaus_web_buckets.erl adds. A stream has no statistics and no settings.
func (x *call) bucketObject(c *Cluster, b *Bucket, streamed bool) object {
	out := object{}
	part := map[string]json.RawMessage{}
	_ = json.Unmarshal(x.s.host.BucketPart(b.Name, x.self), &part) // nothing for a bucket that is gone
	for name, value := range part {
		out[name] = value
	}
	base := "/pools/default/buckets/" + pathEscape(b.Name)
	out["rev"], out["revEpoch"] = c.Rev, c.RevEpoch
	out["nodes"] = x.bucketNodes(c, b)
	out["localRandomKeyUri"] = base + "/localRandomKey"
	out["controllers"] = b.controllers(base)
	out["stats"] = fields{
		"uri": base + "/stats", "directoryURI": base + "/stats/Directory", "nodeStatsListURI": base + "/nodes",
	}
	out["authType"], out["autoCompactionSettings"] = "sasl", false
	if b.Type == Couchbase {
		out["replicaIndex"] = b.ReplicaIndex
	}
	b.versioned(c.Version, out)
	if streamed {
		return out
	}
	documents, bytes := c.usage(x.s, b.Name)
	quota := b.QuotaMB * mebibyte
	out["replicaNumber"], out["threadsNumber"] = b.Replicas, b.Threads
	out["quota"] = object{"ram": quota * int64(max(1, len(b.Nodes))), "rawRAM": quota}
	out["basicStats"] = object{
		"quotaPercentUsed": float64(bytes) * 100 / float64(max(1, quota)), "opsPerSec": 0.0, "diskFetches": 0,
		"itemCount": documents, "diskUsed": bytes, "dataUsed": bytes, "memUsed": bytes, "vbActiveNumNonResident": 0,
	}
	out["evictionPolicy"], out["durabilityMinLevel"] = b.EvictionPolicy, b.DurabilityMinLevel
	out["conflictResolutionType"], out["maxTTL"] = b.ConflictResolution, b.MaxTTL
	out["compressionMode"] = b.CompressionMode
	b.magma(c.Version, out)
	if b.ConflictResolution == "lww" || b.HistorySeconds > 0 {
		out["driftAheadThresholdMs"], out["driftBehindThresholdMs"] = b.DriftAheadMS, b.DriftBehindMS
	}
	return out
}

// versioned adds what only buckets of newer servers have.
func (b *Bucket) versioned(v Version, out object) {
	if v.At(7, 6) {
		out["rank"] = b.Rank
		if b.Type != Memcached {
			out["enableCrossClusterVersioning"], out["versionPruningWindowHrs"] = b.CrossVersioning, b.PruningHours
		}
	}
	if v.At(8, 0) && b.Type != Memcached {
		out["workloadPatternDefault"] = "undefined"
	}
	if b.Type == Ephemeral || b.AutoCompaction {
		out["purgeInterval"] = b.PurgeInterval
	}
}

// magma adds the settings of a bucket with that storage backend.
func (b *Bucket) magma(v Version, out object) {
	if b.Backend != Magma {
		return
	}
	out["storageQuotaPercentage"] = b.QuotaPercentage
	if v.At(7, 2) {
		out["historyRetentionSeconds"], out["historyRetentionBytes"] = b.HistorySeconds, b.HistoryBytes
		out["historyRetentionCollectionDefault"] = b.HistoryDefault
	}
	out["magmaKeyTreeDataBlockSize"], out["magmaSeqTreeDataBlockSize"] = 4096, 4096
}

func (b *Bucket) controllers(base string) fields {
	out := fields{
		"compactAll": base + "/controller/compactBucket", "compactDB": base + "/controller/compactDatabases",
		"purgeDeletes":  base + "/controller/unsafePurgeBucket",
		"startRecovery": base + "/controller/startRecovery",
	}
	if b.Flush {
		out["flush"] = base + "/controller/doFlush"
	}
	return out
}

// bucketNodes are the nodes that hold the bucket.
func (x *call) bucketNodes(c *Cluster, b *Bucket) []object {
	out := []object{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if !slices.Contains(b.Nodes, n.Index) {
			continue
		}
		node := n.object(x.s, c)
		node["replication"] = 1.0
		for _, base := range []string{"couchApiBase", "couchApiBaseHTTPS"} {
			if url, ok := node[base].(string); ok {
				node[base] = url + pathEscape(b.Name+"+"+b.UUID)
				if b.Type != Couchbase {
					delete(node, base)
				}
			}
		}
		out = append(out, node)
	}
	return out
}

// listBuckets lists the buckets that the caller may see.
func (x *call) listBuckets() {
	c, out := x.cluster(), []object{}
	for i := range c.Buckets {
		if x.caller.uses(c.Buckets[i].Name) {
			out = append(out, x.bucketObject(c, &c.Buckets[i], false))
		}
	}
	x.send(out)
}

func (x *call) getBucket() {
	if c, b := x.bucket(); b != nil {
		x.send(x.bucketObject(c, b, false))
	}
}

func (x *call) createBucket() {
	c := x.cluster()
	f, errs := parseBucket(x.form, nil, c, c.dataNodes())
	if len(errs) > 0 {
		x.json(http.StatusBadRequest, object{"errors": errs, "summaries": x.summaries(c, f)})
		return
	}
	if x.justValidate() {
		x.send(object{"errors": object{}, "summaries": x.summaries(c, f)})
		return
	}
	if err := x.s.host.CreateBucket(f.set, int(f.vbuckets)); err != nil {
		x.refuse(err)
		return
	}
	x.w.Header().Set("Location", "/pools/default/buckets/"+pathEscape(f.set.Name))
	x.answer(http.StatusAccepted, jsonKind, nil)
}

func (x *call) updateBucket() {
	c, b := x.bucket()
	if b == nil {
		return
	}
	f, errs := parseBucket(x.form, &b.BucketSettings, c, c.dataNodes())
	f.take("numVBuckets", func(text string) {
		if text != strconv.Itoa(b.VBuckets) {
			f.fail("numVBuckets", "Number of vbuckets cannot be modified")
		}
	})
	if len(errs) > 0 {
		x.json(http.StatusBadRequest, object{"errors": errs, "summaries": x.summaries(c, f)})
		return
	}
	if x.justValidate() {
		x.send(object{"errors": object{}, "summaries": x.summaries(c, f)})
		return
	}
	x.finish(x.s.host.UpdateBucket(f.set))
}

// summaries are what the answer to a form of a bucket says about memory and disks.
func (x *call) summaries(c *Cluster, f *bucketForm) object {
	nodes := int64(max(1, c.dataNodes()))
	var taken, quota int64
	for i := range c.Buckets {
		if f.set == nil || c.Buckets[i].Name != f.set.Name {
			taken += c.Buckets[i].QuotaMB * mebibyte * nodes
		}
	}
	if f.set != nil {
		quota = f.set.QuotaMB
	}
	total := x.s.quota("memoryQuota") * mebibyte * nodes
	return object{
		"ramSummary": object{
			"total": total, "otherBuckets": taken, "nodesCount": nodes, "perNodeMegs": quota,
			"thisAlloc": quota * mebibyte * nodes, "thisUsed": 0, "free": total - taken - quota*mebibyte*nodes,
		},
		"hddSummary": object{"total": diskSize, "otherData": 0, "otherBuckets": 0, "thisUsed": 0, "free": diskSize},
	}
}

// dataNodes is how many nodes can hold documents.
func (c *Cluster) dataNodes() int {
	count := 0
	for i := range c.Nodes {
		if c.Nodes[i].Membership == Active && slices.Contains(c.Nodes[i].Services, "kv") {
			count++
		}
	}
	return count
}

func (x *call) dropBucket() {
	if err := x.s.host.DropBucket(x.value("bucket")); err != nil {
		x.text(http.StatusNotFound, "The bucket to be deleted was not found.\r\n")
		return
	}
	x.done()
}

func (x *call) flushBucket() {
	_, b := x.bucket()
	switch {
	case b == nil:
	case !b.Flush:
		x.json(http.StatusBadRequest, fields{"_": "Flush is disabled for the bucket"})
	case x.s.host.FlushBucket(b.Name) != nil:
		x.notFound()
	default:
		x.done()
	}
}

// listDesigns lists the design documents of a bucket.
func (x *call) listDesigns() {
	rows := []any{}
	for _, d := range x.s.host.Designs(x.value("bucket")) {
		rows = append(rows, object{
			"doc": object{
				"meta": fields{"id": "_design/" + d.Name, "rev": strconv.Itoa(d.Rev) + "-mock"},
				"json": json.RawMessage(d.JSON),
			},
			"controllers": fields{
				"compact": "/pools/default/buckets/" + pathEscape(x.value("bucket")) + "/ddocs/_design%2F" +
					pathEscape(d.Name) + "/controller/compactView",
			},
		})
	}
	x.send(object{"rows": rows})
}
