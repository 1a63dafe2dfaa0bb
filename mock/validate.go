package mock

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
	"github.com/couchcore/couchcore/mock/internal/subdoc"
)

const (
	maxCollectionKey = 246

	durableTime    = 3 * time.Millisecond // how long a durable write takes when nothing stands in its way
	durableDefault = 30 * time.Second     // how long it tries when the client does not say
)

// documentKey splits a key field. why is empty when the field is right, else what a server says of it.
func documentKey(field []byte, collections bool) (cid uint32, key []byte, why string) {
	longest := store.MaxKey
	if collections {
		longest = store.MaxPrefixedKey
	}
	switch {
	case len(field) == 0:
		return 0, field, "Request must include key"
	case len(field) > longest:
		return 0, field, fmt.Sprintf("Key length exceeds %d", longest)
	case !collections:
		return 0, field, ""
	case len(field) == 1:
		return 0, field, "Key length must be >= 2"
	}
	cid, key, err := memd.ParseLEB128(field)
	most := maxCollectionKey
	if cid == 0 {
		most = store.MaxKey
	}
	switch {
	case err != nil && slices.ContainsFunc(field[:min(5, len(field))], func(b byte) bool { return b < 0x80 }):
		return 0, field, "Key contains non-canonical leb128"
	case err != nil:
		return 0, field, "No stop-byte found"
	case len(key) == 0:
		return cid, key, "No logical key found"
	case cid >= 1 && cid <= 7:
		return cid, key, fmt.Sprintf("Invalid collection-id:%d", cid)
	case len(key) > most:
		return cid, key, fmt.Sprintf("Logical key exceeds %d", most)
	}
	return cid, key, ""
}

// execute checks a request against its row of the table and runs it, or returns what runs it after a wait.
func (rq *request) execute() (rep reply, wait func() (reply, bool)) {
	sp := rq.spec
	if rq.user == nil && (sp == nil || !sp.preAuth) {
		return fail(memd.StatusAccess, "Authentication required for %v", rq.p.Opcode), nil
	}
	if sp == nil {
		if rq.p.Opcode.Known() && !rq.k.n.profile.unknown[rq.p.Opcode] || retired(rq.p.Opcode) {
			return reply{status: memd.StatusNotSupported}, nil
		}
		return reply{status: memd.StatusUnknownCommand}, nil
	}
	if rq.k.n.profile.unknown[rq.p.Opcode] {
		return reply{status: memd.StatusUnknownCommand}, nil
	}
	if rep := rq.check(); rep.status != memd.StatusSuccess {
		return rep, nil
	}
	if sp.bucket && rq.b == nil {
		return fail(memd.StatusNoBucket, "No bucket selected"), nil
	}
	if sp.manifest && !rq.has(factCollections) || sp.bucket && rq.b.unknows(rq.p.Opcode) ||
		rq.level > 0 && rq.b.memcached() {
		return reply{status: memd.StatusNotSupported}, nil
	}
	if sp.dcp && rq.features.Has(memd.FeatureUnorderedExecution) {
		return fail(memd.StatusNotSupported, "DCP on connections with unordered execution is not supported"), nil
	}
	if rep := rq.authorise(); rep.status != memd.StatusSuccess {
		return rep, nil
	}
	if sp.fleeting && rq.level > 0 {
		return reply{status: memd.StatusNotSupported}, nil
	}
	if sp.durable && rq.level > 0 {
		return rq.prepare()
	}
	return sp.run(rq), nil
}

// check refuses a request that is not in order whatever the bucket holds: its header, its value, its framing extras and
// its key, in that order.
func (rq *request) check() reply {
	if rep := rq.checkForm(); rep.status != memd.StatusSuccess {
		return rep
	}
	if rep := rq.checkFrames(); rep.status != memd.StatusSuccess {
		return rep
	}
	if rq.keyErr != "" {
		return fail(memd.StatusInvalid, "%s", rq.keyErr)
	}
	return reply{}
}

// checkFrames reads the framing extras. A frame that the node does not know is refused, never skipped: its sender
// relies on it. A server does not ask whether HELLO has granted extended requests.
func (rq *request) checkFrames() reply {
	if rq.spec.durable && rq.b != nil {
		rq.level = rq.b.level
	}
	for frames := rq.p.Frames; len(frames) > 0; {
		id, data, tail, err := memd.NextFrame(frames)
		if err != nil {
			return fail(memd.StatusInvalid, "Invalid encoding in FrameExtras")
		}
		frames = tail
		if rep := rq.frame(id, data); rep.status != memd.StatusSuccess {
			return rep
		}
	}
	return reply{}
}

// knowsFrame reports whether the node's release knows a frame.
func (rq *request) knowsFrame(id memd.FrameID) bool {
	switch id {
	case memd.FrameBarrier, memd.FrameDurability, memd.FrameImpersonateUser:
		return true
	case memd.FramePreserveTTL:
		return rq.has(factFramePreserveTTL)
	case memd.FrameImpersonatePriv:
		return rq.has(factFrameExtraPrivilege)
	}
	return false
}

func (rq *request) frame(id memd.FrameID, data []byte) reply {
	if !rq.knowsFrame(id) {
		return reply{status: memd.StatusUnknownFrameInfo}
	}
	switch id {
	case memd.FrameBarrier:
		if len(data) != 0 {
			return fail(memd.StatusInvalid, "Barrier should not contain value")
		}
	case memd.FrameDurability:
		return rq.durabilityFrame(data)
	case memd.FramePreserveTTL:
		if len(data) != 0 {
			return fail(memd.StatusInvalid, "PreserveTtl should not contain value")
		}
		if !rq.spec.preserve {
			return fail(memd.StatusNotSupported, "This command does not support PreserveTtl")
		}
		rq.preserve = true
	case memd.FrameImpersonateUser:
		if len(data) == 0 {
			return fail(memd.StatusInvalid, "Impersonated user must be set")
		}
		rq.impersonal = string(data)
	case memd.FrameImpersonatePriv:
		if len(data) == 0 {
			return fail(memd.StatusInvalid, "Privilege name must be set")
		}
	}
	return reply{}
}

func (rq *request) durabilityFrame(data []byte) reply {
	level, timeout, ok := memd.ParseDurability(data)
	switch {
	case !ok:
		return fail(memd.StatusInvalid, "Invalid sized buffer provided: %d", len(data))
	case len(data) == 3 && timeout == 0:
		return fail(memd.StatusDurabilityInvalidLevel, "Timeout(): Cannot specify bucket default timeout")
	case len(data) == 3 && timeout == 0xffff:
		return fail(memd.StatusDurabilityInvalidLevel, "Timeout(): Cannot specify an infinite timeout")
	case level == memd.DurabilityNone, level > memd.DurabilityPersistToMajority:
		return fail(memd.StatusDurabilityInvalidLevel, "Content represents an invalid requirement specification")
	case !rq.spec.durable && !rq.spec.fleeting:
		return fail(memd.StatusInvalid, "The requested command does not support durability requirements")
	}
	rq.level = max(rq.level, level)
	rq.timeout = time.Duration(timeout) * time.Millisecond
	return reply{}
}

// checkForm compares the request's fields with its row of the table.
func (rq *request) checkForm() reply {
	sp, p := rq.spec, rq.p
	switch {
	case p.Datatype&^allTypes != 0:
		return fail(memd.StatusInvalid, "Request datatype invalid")
	case !slices.Contains(sp.extras, len(p.Extras)) && len(sp.extras)+len(p.Extras) > 0:
		return fail(memd.StatusInvalid, "%s", rq.wrongExtras())
	case sp.key == keyNone && len(p.Key) > 0:
		return fail(memd.StatusInvalid, "Request must not include key")
	case sp.key == keyNeeded && len(p.Key) == 0:
		return fail(memd.StatusInvalid, "Request must include key")
	case sp.value == valueNone && len(p.Value) > 0:
		return fail(memd.StatusInvalid, "Request must not include value")
	case sp.value == valueNeeded && len(p.Value) == 0:
		return fail(memd.StatusInvalid, "Request must include value")
	case sp.cas == casZero && p.CAS != 0:
		return fail(memd.StatusInvalid, "Request CAS must not be set")
	case sp.cas == casSet && p.CAS == 0:
		return fail(memd.StatusInvalid, "Request CAS must be set")
	}
	return rq.checkDatatype()
}

// wrongExtras is what a server says of extras with a length that the command does not have.
func (rq *request) wrongExtras() string {
	switch sp := rq.spec; {
	case sp.misfit != "":
		return sp.misfit
	case sp.paths:
		return subdoc.InvalidExtras(rq.p.Opcode, len(rq.p.Extras))
	case len(sp.extras) == 0:
		return "Request must not include extras"
	default:
		return fmt.Sprintf("Request must include extras of length %d", sp.extras[len(sp.extras)-1])
	}
}

func (rq *request) checkDatatype() reply {
	dt := rq.p.Datatype
	allowed := rq.spec.datatypes
	if rq.spec.document {
		allowed = memd.DatatypeJSON | memd.DatatypeSnappy
	}
	switch {
	case dt&^allowed != 0:
		return fail(memd.StatusInvalid, "Request datatype invalid")
	case dt&memd.DatatypeJSON != 0 && !rq.features.Has(memd.FeatureJSON):
		return fail(memd.StatusInvalid, "Datatype (JSON) not enabled for the connection")
	case dt&memd.DatatypeSnappy != 0 && !takesSnappy(rq.features):
		return fail(memd.StatusInvalid, "Datatype (Snappy) not enabled for the connection")
	case dt&memd.DatatypeXattr != 0 && !rq.features.Has(memd.FeatureXattr):
		return fail(memd.StatusInvalid, "Datatype (Xattr) not enabled for the connection")
	}
	if rep := rq.inflate(); rep.status != memd.StatusSuccess {
		return rep
	}
	if rq.spec.document && len(rq.value) > store.MaxValue {
		return fail(memd.StatusTooBig, "Value is larger than 20 MiB")
	}
	return reply{}
}

// authorise checks the account's rights, those to act for another account, and that one's. A server looks at the
// privilege that the opcode needs.
func (rq *request) authorise() reply {
	c := rq.k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if rq.user == nil {
		return reply{}
	}
	if rq.impersonal == "" {
		return rq.mayDo(rq.user)
	}
	other := c.users[rq.impersonal]
	switch {
	case !rq.user.admin:
		return rq.lacks("Impersonate")
	case strings.HasPrefix(rq.impersonal, "^"):
		return fail(memd.StatusNotSupported, "External authentication service not configured")
	case other == nil:
		return fail(memd.StatusAccess, "User %q is not a Couchbase user", rq.impersonal)
	}
	return rq.mayDo(other)
}

// mayDo checks whether an account may send the request. The caller holds the mutex.
func (rq *request) mayDo(u *user) reply {
	changes := rq.spec.mutates
	switch {
	case !rq.spec.bucket || rq.b == nil || u.may(rq.b.name) && !(changes && u.reads):
		return reply{}
	case rq.spec.meta:
		return rq.lacks("MetaWrite")
	case baseForm(rq.p.Opcode) == memd.OpDelete:
		return rq.lacks("Delete")
	case changes:
		return rq.lacks("Upsert")
	}
	return rq.lacks("Read")
}

func (rq *request) lacks(privilege string) reply {
	return fail(memd.StatusAccess, "Authorization failure: can't execute %v operation without the %s privilege",
		rq.p.Opcode, privilege)
}
