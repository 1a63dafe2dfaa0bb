package mock

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// Kinds of buckets beside the usual one, whose kind is empty.
const (
	kindEphemeral = "ephemeral"
	kindMemcached = "memcached"
)

// ServerGroups puts the nodes into server groups: node 0 into the first, node 1 into the second and so on, beginning
// again at the first. Without this option all are in "Group 1".
func ServerGroups(names ...string) Option { return func(s *settings) { s.groups = names } }

// ReportUnits lets HELLO grant ReportUnitUsage, as serverless clusters do. Answers then tell what they cost: a read one
// unit for every 4 KiB of what it answers, a write one for every KiB of what it was sent.
func ReportUnits() Option { return func(s *settings) { s.units = true } }

// AnswersApart gives answers that are due at one instant an order in virtual time: of requests that come over one
// connection at one instant and wait, each is answered d later than the one before it. A stream of maps over HTTP sends
// a map d after it has changed, one for all changes of an instant. Without it both are up to the scheduler.
func AnswersApart(d time.Duration) Option { return func(s *settings) { s.apart = d } }

const (
	readUnit  = 4 << 10
	writeUnit = 1 << 10
)

// appendUnits appends the frame that tells what a request cost, if it was executed.
func (rq *request) appendUnits(frames []byte, rep *reply) []byte {
	if !rq.k.granted().Has(memd.FeatureReportUnitUsage) || rq.spec == nil || rq.spec.key != keyDocument ||
		rep.status != memd.StatusSuccess {
		return frames
	}
	id, n := memd.FrameReadUnits, (len(rep.value)+readUnit-1)/readUnit
	if rq.spec.mutates {
		id, n = memd.FrameWriteUnits, (len(rq.key)+len(rq.value)+writeUnit-1)/writeUnit
	}
	out, err := memd.AppendFrame(frames, id, binary.BigEndian.AppendUint16(nil, uint16(min(max(1, n), math.MaxUint16))))
	if err != nil { // two bytes fit
		return frames
	}
	return out
}

// group is the server group of a node.
func (s *settings) group(node int) string {
	if len(s.groups) == 0 {
		return "Group 1"
	}
	return s.groups[node%len(s.groups)]
}

// capabilities are what the bucket's configuration says that it can do in a cluster of that compatibility.
func (b *bucket) capabilities(compat release) []string {
	names := []string{}
	for _, row := range capabilityRows {
		x := &row.what
		if row.holds(compat) && !(x.disk && b.ephemeral) && (x.backend == "" || x.backend == b.settings.Backend) {
			names = append(names, x.name)
		}
	}
	return names
}

// Ephemeral makes the bucket an ephemeral one: it says so, refuses durability levels that want a disk (0xa0), and
// OBSERVE_SEQNO never reports anything persisted.
func Ephemeral() BucketOption { return func(b *bucketSettings) { b.kind = kindEphemeral } }

// Memcached makes the bucket a memcached one: there are no vbuckets, no replicas and no collections but the default
// one, and clients spread their keys over the nodes by ketama hashing. Each node has documents of its own, and answers
// for any key; what is beyond plain memcached is refused with 0x83.
func Memcached() BucketOption { return func(b *bucketSettings) { b.kind = kindMemcached } }

// ResolveByTime makes the bucket resolve the conflicts of writes with metadata by their CAS (last write wins) instead
// of by the number of revisions.
func ResolveByTime() BucketOption { return func(b *bucketSettings) { b.lww = true } }

// Compression sets what the bucket does about compressed values: "passive", which is what it does unless told, keeps
// them as they come; "off" stores them inflated; "active" compresses values, and configurations for clients that have
// negotiated SnappyEverywhere, by itself.
func Compression(mode string) BucketOption {
	return func(b *bucketSettings) {
		m, ok := compressionModes[mode]
		if !ok {
			b.unknown = "compression mode " + mode
		}
		b.compression = m
	}
}
