package mock

import (
	"slices"

	"github.com/couchcore/couchcore/memd"
)

// presence says what a request's field must be.
type presence uint8

const (
	keyNone     presence = iota // the key must be empty
	keyAny                      // a name, or none
	keyNeeded                   // a name
	keyDocument                 // a document's key, with a collection id before it once collections are granted
)

type valueRule uint8

const (
	valueNone valueRule = iota
	valueAny
	valueNeeded
)

type casRule uint8

const (
	casZero casRule = iota
	casAny
	casSet
)

// spec is what the node knows about an opcode: who may send it, which form it must have, and what executes it.
type spec struct {
	run      func(*request) reply
	preAuth  bool // allowed before the login
	bucket   bool // needs a selected bucket
	key      presence
	value    valueRule
	cas      casRule
	extras   []int  // allowed lengths, nil for none
	misfit   string // what a server says of another length, where that is not the usual text
	document bool   // the value is a document's, so the datatype may be set
	durable  bool   // takes the durability frame
	fleeting bool   // takes it, too, and refuses every level
	preserve bool   // takes the preserve-TTL frame
	reorder  bool   // may be overtaken when execution is unordered
	mutates  bool
	meta     bool // it brings the metadata of a document
	manifest bool // it is about collections
	paths    bool // it is a sub-document command
	token    bool // a success carries the mutation token

	quiet       bool // silent when there is nothing to tell
	dcp         bool // refused on a connection with unordered execution, as everything of DCP is
	replicaOnly bool // answered by replicas of the vbucket, not by the active node
	datatypes   memd.Datatype
}

// specs is the table of everything that a node answers with something else than "unknown" (spec 01, section 5).
var specs = [256]*spec{
	memd.OpHello:         {run: hello, preAuth: true, key: keyAny, value: valueAny},
	memd.OpGetErrorMap:   {run: getErrorMap, preAuth: true, value: valueNeeded},
	memd.OpSASLListMechs: {run: saslList, preAuth: true},
	memd.OpSASLAuth:      {run: saslAuth, preAuth: true, key: keyNeeded, value: valueAny},
	memd.OpSASLStep:      {run: saslStep, preAuth: true, key: keyNeeded, value: valueAny},

	memd.OpSelectBucket:     {run: selectBucket, key: keyAny, cas: casAny},
	memd.OpGetClusterConfig: {run: getClusterConfig, extras: []int{0, 16}, reorder: true},
	memd.OpNoop:             {run: noop},
	memd.OpVersion:          {run: getVersion},
	memd.OpQuit:             {run: quit},
	memd.OpStat:             {run: stat, key: keyAny, value: valueAny, datatypes: memd.DatatypeJSON},

	memd.OpCollectionsGetManifest: {run: getManifest, bucket: true, manifest: true},
	memd.OpCollectionsGetID:       {run: getCollectionID, bucket: true, manifest: true, key: keyAny, value: valueAny},
	memd.OpCollectionsGetScopeID:  {run: getScopeID, bucket: true, manifest: true, key: keyAny, value: valueAny},
	memd.OpObserveSeqno:           {run: observeSeqno, bucket: true, value: valueNeeded, cas: casAny},
	memd.OpGetFailoverLog:         {run: failoverLog, bucket: true, cas: casAny, dcp: true},
	memd.OpObserve:                {run: observe, bucket: true, value: valueNeeded},
	memd.OpGetVBucket:             {run: getVBucket, bucket: true, key: keyAny},
	memd.OpGetAllVBSeqnos: {
		run: allSeqnos, bucket: true, extras: []int{0, 4, 8}, misfit: "Request extras must be of length 0 or 4 or 8",
		reorder: true,
	},
	memd.OpSeqnoPersistence: {run: seqnoPersistence, bucket: true, extras: []int{8}},
	memd.OpRangeScanCreate: {
		run: scanCreate, bucket: true, value: valueNeeded, datatypes: memd.DatatypeJSON,
		reorder: true,
	},
	memd.OpRangeScanContinue: {run: scanContinue, bucket: true, extras: []int{28}, cas: casAny},
	memd.OpRangeScanCancel:   {run: scanCancel, bucket: true, extras: []int{16}, cas: casAny},
	memd.OpGetRandomKey:      {run: getRandom, bucket: true, extras: []int{0, 4, 5}, misfit: randomExtras},
	memd.OpListBuckets:       {run: listBuckets, cas: casAny},
	memd.OpVerbosity:         {run: noop, extras: []int{4}},

	memd.OpGet:   {run: runGet, bucket: true, key: keyDocument, reorder: true},
	memd.OpGetK:  {run: runGetKey, bucket: true, key: keyDocument, reorder: true},
	memd.OpGetEx: {run: runGetEx, bucket: true, key: keyDocument, reorder: true},
	memd.OpGetExReplica: {
		run: runGetEx, bucket: true, key: keyDocument, reorder: true, replicaOnly: true,
	},
	memd.OpEvictKey: {run: runEvict, bucket: true, key: keyDocument, reorder: true},
	memd.OpGetKeys: {
		run: getKeys, bucket: true, key: keyDocument, extras: []int{0, 4},
		misfit: "Expected 4 bytes of extras containing the number of keys to get",
	},
	memd.OpSetWithMeta: {
		run: runWithMeta, bucket: true, key: keyDocument, value: valueAny, cas: casAny, extras: withMetaExtras,
		misfit:    "Request extras invalid",
		datatypes: allTypes, mutates: true, meta: true, token: true,
	},
	memd.OpAddWithMeta: {
		run: runWithMeta, bucket: true, key: keyDocument, value: valueAny, cas: casAny, extras: withMetaExtras,
		misfit:    "Request extras invalid",
		datatypes: allTypes, mutates: true, meta: true, token: true,
	},
	memd.OpDelWithMeta: {
		run: runWithMeta, bucket: true, key: keyDocument, value: valueAny, cas: casAny, extras: withMetaExtras,
		misfit:    "Request extras invalid",
		datatypes: allTypes, mutates: true, meta: true, token: true,
	},
	memd.OpReturnMeta: {
		run: runReturnMeta, bucket: true, key: keyDocument, value: valueAny, cas: casAny, extras: []int{12},
		mutates: true, meta: true,
	},
	memd.OpGetMeta: {
		run: runGetMeta, bucket: true, key: keyDocument, extras: []int{0, 1},
		misfit: "Request extras must be of length 0 or 1",
	},
	memd.OpGetReplica: {run: runGetReplica, bucket: true, key: keyDocument, reorder: true, replicaOnly: true},
	memd.OpSet: {
		run: runStore, bucket: true, key: keyDocument, value: valueAny, cas: casAny, extras: []int{8}, document: true,
		durable: true, preserve: true, reorder: true, mutates: true, token: true,
	},
	memd.OpAdd: {
		run: runStore, bucket: true, key: keyDocument, value: valueAny, extras: []int{8}, document: true,
		durable: true, reorder: true, mutates: true, token: true,
	},
	memd.OpReplace: {
		run: runStore, bucket: true, key: keyDocument, value: valueAny, cas: casAny, extras: []int{8}, document: true,
		durable: true, preserve: true, reorder: true, mutates: true, token: true,
	},
	memd.OpDelete: {
		run: runDelete, bucket: true, key: keyDocument, cas: casAny, durable: true, reorder: true, mutates: true,
		token: true,
	},
	memd.OpIncrement: {
		run: runCounter, bucket: true, key: keyDocument, extras: []int{20},
		durable: true, preserve: true, reorder: true, mutates: true, token: true,
	},
	memd.OpDecrement: {
		run: runCounter, bucket: true, key: keyDocument, extras: []int{20},
		durable: true, preserve: true, reorder: true, mutates: true, token: true,
	},
	memd.OpAppend: {
		run: runConcat, bucket: true, key: keyDocument, value: valueAny, cas: casAny, document: true,
		durable: true, preserve: true, reorder: true, mutates: true, token: true,
	},
	memd.OpPrepend: {
		run: runConcat, bucket: true, key: keyDocument, value: valueAny, cas: casAny, document: true,
		durable: true, preserve: true, reorder: true, mutates: true, token: true,
	},
	memd.OpTouch: {
		run: runTouch, bucket: true, key: keyDocument, extras: []int{4}, fleeting: true, reorder: true, mutates: true,
	},
	memd.OpGAT: {
		run: runTouch, bucket: true, key: keyDocument, extras: []int{4}, fleeting: true, reorder: true, mutates: true,
	},
	memd.OpGetLocked: {
		run: runGetLocked, bucket: true, key: keyDocument, extras: []int{0, 4},
		misfit: "Request extras must be of length 0 or 4", reorder: true,
	},
	memd.OpUnlockKey: {run: runUnlock, bucket: true, key: keyDocument, cas: casSet, reorder: true},

	memd.OpSubdocGet:      pathLookup,
	memd.OpSubdocExists:   pathLookup,
	memd.OpSubdocGetCount: pathLookup,
	memd.OpSubdocMultiLookup: {
		run: runSubdoc, paths: true, bucket: true, key: keyDocument, value: valueAny, cas: casAny, extras: []int{0, 1},
		reorder: true,
	},
	memd.OpSubdocDictAdd:              pathMutation,
	memd.OpSubdocDictUpsert:           pathMutation,
	memd.OpSubdocDelete:               pathMutation,
	memd.OpSubdocReplace:              pathMutation,
	memd.OpSubdocArrayPushLast:        pathMutation,
	memd.OpSubdocArrayPushFirst:       pathMutation,
	memd.OpSubdocArrayInsert:          pathMutation,
	memd.OpSubdocArrayAddUnique:       pathMutation,
	memd.OpSubdocCounter:              pathMutation,
	memd.OpSubdocReplaceBodyWithXattr: pathMutation,
	memd.OpSubdocMultiMutation: {
		run: runSubdoc, paths: true, bucket: true, key: keyDocument, value: valueAny, cas: casAny,
		extras:  []int{0, 1, 4, 5, 8, 9},
		durable: true, preserve: true, reorder: true, mutates: true, token: true,
	},
}

// allTypes are all datatypes of values.
const allTypes = memd.DatatypeJSON | memd.DatatypeSnappy | memd.DatatypeXattr

// withMetaExtras are the lengths of a write's metadata, with and without options and extended metadata.
var withMetaExtras = []int{24, 26, 28, 30}

// Rows of the sub-document commands with one path.
var (
	pathLookup = &spec{
		run: runSubdoc, paths: true, bucket: true, key: keyDocument, value: valueAny, cas: casAny, extras: []int{3, 4},
		reorder: true,
	}
	pathMutation = &spec{
		run: runSubdoc, paths: true, bucket: true, key: keyDocument, value: valueAny, cas: casAny,
		extras:  []int{3, 4, 7, 8, 11, 12},
		durable: true, preserve: true, reorder: true, mutates: true, token: true,
	}
)

// retired are the opcodes without a name that a server still answers with "not supported" (spec 01, section 5.3).
func retired(op memd.Opcode) bool {
	switch {
	case op >= 0x30 && op <= 0x3c, op >= 0x40 && op <= 0x47:
		return true
	}
	return slices.Contains([]memd.Opcode{
		0x97, 0x9e, 0x9f, 0xa6, 0xa7, 0xaa, 0xac, 0xb0, 0xb1, 0xc1, 0xc2, 0xf0, 0xf2,
	}, op)
}
