package mock

import (
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/management"
)

// What releases of the server differ in. A fact is one row: what it is, the first release that has it, and the first
// that has it no more. Sources: kv_engine's feature.h, opcode.h, hello_packet_executor.cc, subdocument_parser.h and
// error_map_v2.json, and ns_server's bucket_info_cache.erl and cluster_compat_mode.erl, at the tags and branches of
// each release.

// Releases that rows name.
const (
	v66  release = 6<<32 | 6<<16
	v70  release = 7<<32 | 0<<16
	v71  release = 7<<32 | 1<<16
	v72  release = 7<<32 | 2<<16
	v724 release = 7<<32 | 2<<16 | 4
	v728 release = 7<<32 | 2<<16 | 8
	v76  release = 7<<32 | 6<<16
	v762 release = 7<<32 | 6<<16 | 2
	v764 release = 7<<32 | 6<<16 | 4
	v80  release = 8<<32 | 0<<16

	always     = v66 // the oldest that there is here
	unreleased = 1 << 63
)

// releases are the newest maintenance releases that the rows were compared with, one of each line.
var releases = []release{
	v66 | 5, v70 | 5, v71 | 6, v72 | 9, v76 | 8, v80 | 1,
}

// row is one fact: releases from since on, and before until unless that is zero.
type row[T any] struct {
	what         T
	since, until release
}

func (x *row[T]) holds(r release) bool { return r >= x.since && (x.until == 0 || r < x.until) }

// helloRows are the features that HELLO grants, in the order of their numbers, which is the order of its answer. What
// has no row is known and never granted, or from a newer release.
var helloRows = []row[memd.Feature]{
	{memd.FeatureTCPNoDelay, always, 0},
	{memd.FeatureMutationSeqno, always, 0},
	{memd.FeatureTCPDelay, always, v80},
	{memd.FeatureXattr, always, 0},
	{memd.FeatureXError, always, 0},
	{memd.FeatureSelectBucket, always, 0},
	{memd.FeatureSnappy, always, 0},
	{memd.FeatureJSON, always, 0},
	{memd.FeatureDuplex, always, 0},
	{memd.FeatureClustermapChange, always, 0},
	{memd.FeatureUnorderedExecution, always, 0},
	{memd.FeatureTracing, always, 0},
	{memd.FeatureAltRequest, always, 0},
	{memd.FeatureSyncReplication, always, 0},
	{memd.FeatureCollections, v70, 0}, // 6.6 has them as a preview for developers
	{memd.FeatureSnappyEverywhere, v76, 0},
	{memd.FeaturePreserveTTL, v70, 0},
	{memd.FeatureVAttr, always, 0},
	{memd.FeaturePiTR, v70, v80},
	{memd.FeatureSubdocCreateAsDeleted, always, 0},
	{memd.FeatureSubdocDocumentMacro, v70, 0},
	{memd.FeatureSubdocReplaceBodyWithXattr, v70, 0},
	{memd.FeatureReportUnitUsage, v76, 0}, // serverless clusters only
	{memd.FeatureNonBlockingThrottling, v76, 0},
	{memd.FeatureSubdocReplicaRead, v76, 0},
	{memd.FeatureGetClusterConfigWithVersion, v76, 0},
	{memd.FeatureDedupeNotMyVBucket, v76, 0},
	{memd.FeatureClustermapChangeBrief, v76, 0},
	{memd.FeatureSubdocMultipleXattrKeys, v76, 0},
	{memd.FeatureSubdocBinaryXattr, v762, 0},
	{memd.FeatureRangeScanIncludeXattr, v80, 0},
	{memd.FeatureSubdocReplicaReadDeleted, v80, 0},
	{memd.FeatureGetRandomKeyIncludeXattr, v80, 0},
}

// commandRows are the commands that not every release knows. One that is not known is answered with 0x81.
var commandRows = []row[memd.Opcode]{
	{memd.OpSubdocReplaceBodyWithXattr, v70, 0},
	{memd.OpIfconfig, v71, 0},
	{memd.OpRangeScanCreate, v76, 0},
	{memd.OpRangeScanContinue, v76, 0},
	{memd.OpRangeScanCancel, v76, 0},
	{memd.OpPauseBucket, v76, 0},
	{memd.OpResumeBucket, v76, 0},
	{memd.OpSetBucketThrottleProperties, v76, 0},
	{memd.OpSetBucketDataLimitExceeded, v76, 0},
	{memd.OpGetEx, v80, 0},
	{memd.OpGetExReplica, v80, 0},
	{memd.OpSetActiveEncryptionKeys, v80, 0},
	{memd.OpPruneEncryptionKeys, v80, 0},
	{memd.OpSetChronicleAuthToken, v80, 0},
	{memd.OpPrepareSnapshot, v80, 0},
	{memd.OpReleaseSnapshot, v80, 0},
	{memd.OpDownloadSnapshot, v80, 0},
	{memd.OpGetFileFragment, v80, 0},
	{memd.OpGetFusionStorageSnapshot, v80, 0},
	{memd.OpReleaseFusionStorageSnapshot, v80, 0},
	{memd.OpMountFusionVBucket, v80, 0},
	{memd.OpUnmountFusionVBucket, v80, 0},
	{memd.OpSyncFusionLogstore, v80, 0},
	{memd.OpStartFusionUploader, v80, 0},
	{memd.OpStopFusionUploader, v80, 0},
	{memd.OpDeleteFusionNamespace, v80, 0},
	{memd.OpGetFusionNamespaces, v80, 0},
}

// fact is something else that not every release does.
type fact uint8

const (
	factCollections           fact = iota // collections, and the commands about their manifest
	factFramePreserveTTL                  // frame info 5; one that is not known is refused with 0x80
	factFrameExtraPrivilege               // frame info 6
	factSubdocUserFlags                   // extras with user flags
	factSubdocBinary                      // path flag 0x20
	factSubdocManyXattrs                  // attributes of several names in a request, 0xcf without
	factSubdocDocumentMacros              // ${$document...}
	factSubdocRevive                      // document flag 0x10
	factSubdocReplicaRead                 // document flag 0x20
	factSubdocDeletedReplicas             // the same together with 0x04
	factMaxPathsSetting                   // the limit on paths is a setting
	factNotLocked                         // UNLOCK_KEY of what is not locked is 0x0e, else 0x86
	factLockEnds                          // a document has its own CAS again when a lock ends, else the lock's
	factKnownVersion                      // GET_CLUSTER_CONFIG takes the version that the client has
	factPushEpoch                         // pushes name the epoch; older ones have four bytes of revision
	factRandomXattrs                      // GET_RANDOM_KEY takes a flag that asks for attributes
	factRevEpoch                          // revEpoch in configurations
	factBucketKind                        // bucketType and storageBackend in the short ones
	factNumVBuckets                       // numVBuckets
	factServerGroup                       // serverGroup in nodesExt
	factClusterLabels                     // clusterUUID and clusterName
	factNodeUUID                          // nodeUUID
	factProduct                           // prod and prodName
	factSequentialScans                   // queries scan a keyspace without an index
	factErrorReasons                      // errors of queries have a reason
	factMissingKeyspace                   // the status 424 for a keyspace that does not exist
	factFunctionStates                    // the rules of eventing functions' states that 8.0 has
	factCount
)

var factRows = []row[fact]{
	{factCollections, v70, 0},
	{factFramePreserveTTL, v70, 0},
	{factFrameExtraPrivilege, v71, 0},
	{factSubdocUserFlags, v762, 0},
	{factSubdocBinary, v762, 0},
	{factSubdocManyXattrs, v76, 0},
	{factSubdocDocumentMacros, v70, 0},
	{factSubdocRevive, v70, 0},
	{factSubdocReplicaRead, v76, 0},
	{factSubdocDeletedReplicas, v80, 0},
	{factMaxPathsSetting, v80, 0},
	{factNotLocked, v76, 0},
	{factLockEnds, v724, 0},
	{factKnownVersion, v76, 0},
	{factPushEpoch, v70, 0},
	{factRandomXattrs, v80, 0},
	{factRevEpoch, v70, 0},
	{factBucketKind, v71, 0},
	{factNumVBuckets, v76, 0},
	{factServerGroup, v762, 0},
	{factClusterLabels, v764, 0},
	{factNodeUUID, v80, 0},
	{factProduct, v80, 0},
	{factSequentialScans, v76, 0},
	{factErrorReasons, v71, 0},
	{factMissingKeyspace, v76, 0},
	{factFunctionStates, v80, 0},
}

// parameterRows are the parameters of requests to the query service (service_request.go of its source, at the branches
// of each release). One that is not known is refused with 1065.
var parameterRows = []row[string]{
	{"args auto_execute auto_prepare client_context_id compression controls creds encoded_plan", always, 0},
	{"encoding format max_index_api max_parallelism metrics n1ql_feat_ctrl namespace pipeline_batch", always, 0},
	{"pipeline_cap prepared pretty profile readonly scan_cap scan_consistency scan_vector", always, 0},
	{"scan_vectors scan_wait signature statement timeout use_fts", always, 0},
	{"atrcollection durability_level kvtimeout memory_quota numatrs query_context txdata txid", v70, 0},
	{"tximplicit txstmtnum txtimeout use_cbo", v70, 0},
	{"durability_timeout", v70, v71},
	{"error_limit preserve_expiry", v71, 0},
	{"loglevel", v728, 0},
	{"duration_style sort_projection use_replica", v76, 0},
	{"natural natural_context natural_cred natural_execute natural_orgid natural_output", v80, 0},
}

// bucketCapability is one of the capabilities that a configuration lists for a bucket.
type bucketCapability struct {
	name    string
	disk    bool   // not of ephemeral buckets
	backend string // of buckets with that storage only
}

// capabilityRows are the capabilities of buckets, which follow the cluster's compatibility, in their order.
var capabilityRows = []row[bucketCapability]{
	{bucketCapability{name: "collections"}, v70, 0},
	{bucketCapability{name: "durableWrite"}, always, 0},
	{bucketCapability{name: "tombstonedUserXAttrs"}, always, 0},
	{bucketCapability{name: "couchapi", backend: management.Couchstore}, always, 0},
	{bucketCapability{name: "subdoc.ReplaceBodyWithXattr"}, v70, 0},
	{bucketCapability{name: "subdoc.DocumentMacroSupport"}, v70, 0},
	{bucketCapability{name: "subdoc.ReviveDocument"}, v71, 0},
	{bucketCapability{name: "nonDedupedHistory", backend: management.Magma}, v72, 0},
	{bucketCapability{name: "dcp.IgnorePurgedTombstones"}, v72, 0},
	{bucketCapability{name: "preserveExpiry"}, v76, 0},
	{bucketCapability{name: "querySystemCollection"}, v76, 0},
	{bucketCapability{name: "mobileSystemCollection"}, v76, 0},
	{bucketCapability{name: "subdoc.ReplicaRead"}, v76, 0},
	{bucketCapability{name: "subdoc.BinaryXattr"}, v80, 0},
	{bucketCapability{name: "subdoc.AccessDeleted"}, v80, 0},
	{bucketCapability{name: "rangeScan", disk: true}, v76, 0},
	{bucketCapability{name: "dcp"}, always, 0},
	{bucketCapability{name: "cbhello"}, always, 0},
	{bucketCapability{name: "touch"}, always, 0},
	{bucketCapability{name: "cccp"}, always, 0},
	{bucketCapability{name: "xdcrCheckpointing"}, always, 0},
	{bucketCapability{name: "nodesExt"}, always, 0},
	{bucketCapability{name: "xattr"}, always, 0},
}

// serviceCapability is one of the capabilities that a configuration lists for a service.
type serviceCapability struct{ service, name string }

// serviceRows are the capabilities of services, which follow the cluster's compatibility, in their order.
var serviceRows = []row[serviceCapability]{
	{serviceCapability{"n1ql", "costBasedOptimizer"}, v76, 0},
	{serviceCapability{"n1ql", "indexAdvisor"}, v76, 0},
	{serviceCapability{"n1ql", "javaScriptFunctions"}, v76, 0},
	{serviceCapability{"n1ql", "inlineFunctions"}, v76, 0},
	{serviceCapability{"n1ql", "enhancedPreparedStatements"}, always, 0},
	{serviceCapability{"n1ql", "readFromReplica"}, v76, 0},
	{serviceCapability{"search", "vectorSearch"}, v76, 0},
	{serviceCapability{"search", "scopedSearchIndex"}, v76, 0},
}
