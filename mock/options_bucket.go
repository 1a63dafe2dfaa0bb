package mock

// Kinds of buckets beside the usual one, whose kind is empty.
const (
	kindEphemeral = "ephemeral"
	kindMemcached = "memcached"
)

// ServerGroups puts the nodes into server groups: node 0 into the first, node 1 into the second and so on, beginning
// again at the first. Without this option all are in "Group 1".
func ServerGroups(names ...string) Option { return func(s *settings) { s.groups = names } }

// group is the server group of a node.
func (s *settings) group(node int) string {
	if len(s.groups) == 0 {
		return "Group 1"
	}
	return s.groups[node%len(s.groups)]
}

// capabilities are what the bucket's configuration says that it can do.
func (b *bucket) capabilities() []string {
	if b.ephemeral {
		return bucketCapabilities
	}
	return append([]string{"rangeScan"}, bucketCapabilities...)
}

// Ephemeral makes the bucket an ephemeral one: it says so, refuses durability levels that want a disk (0xa0), and
// OBSERVE_SEQNO never reports anything persisted.
func Ephemeral() BucketOption { return func(b *bucketSettings) { b.kind = kindEphemeral } }

// Memcached makes the bucket a memcached one: there are no vbuckets, no replicas and no collections but the default one,
// and clients spread their keys over the nodes by ketama hashing. Each node has documents of its own, and answers for any
// key; what is beyond plain memcached is refused with 0x83.
func Memcached() BucketOption { return func(b *bucketSettings) { b.kind = kindMemcached } }

// ResolveByTime makes the bucket resolve the conflicts of writes with metadata by their CAS (last write wins) instead of
// by the number of revisions.
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
