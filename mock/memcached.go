package mock

import "github.com/couchcore/couchcore/memd"

// A memcached bucket has no vbuckets in its configuration. In the store each node has one of its own, which no other
// holds, with the node's number.

// memcachedOps are the commands, in their loud form, that a memcached bucket executes; all others of those that need a
// bucket are refused with NOT_SUPPORTED.
var memcachedOps = map[memd.Opcode]bool{
	memd.OpGet: true, memd.OpGetK: true, memd.OpSet: true, memd.OpAdd: true, memd.OpReplace: true, memd.OpDelete: true,
	memd.OpIncrement: true, memd.OpDecrement: true, memd.OpAppend: true, memd.OpPrepend: true, memd.OpTouch: true,
	memd.OpGAT:                    true,
	memd.OpCollectionsGetManifest: true, memd.OpCollectionsGetID: true, memd.OpCollectionsGetScopeID: true,
}

func (b *bucket) memcached() bool { return b.kind == kindMemcached }

// unknows reports whether the bucket is of a kind that does not know the command.
func (b *bucket) unknows(op memd.Opcode) bool { return b.memcached() && !memcachedOps[baseForm(op)] }

// memcachedConfig makes a bucket's configuration that of a memcached bucket.
func (j *bucketJSON) memcachedConfig() {
	j.NodeLocator, j.BucketType, j.StorageBackend = "ketama", "memcached", ""
	j.NumVBuckets, j.Map = 0, nil
	j.Capabilities = []string{"cbhello", "nodesExt"}
}
