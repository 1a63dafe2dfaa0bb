package mock

import (
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

const (
	maxCollectionKey = 246

	durableTime    = 3 * time.Millisecond // how long a durable write takes when nothing stands in its way
	durableDefault = 30 * time.Second     // how long it tries when the client does not say
)

// documentKey splits a key field. why is empty when the field is right.
func documentKey(field []byte, collections bool) (cid uint32, key []byte, why string) {
	if !collections {
		switch {
		case len(field) == 0:
			return 0, field, "Request must include key"
		case len(field) > store.MaxKey:
			return 0, field, "Key length exceeds 250"
		}
		return 0, field, ""
	}
	cid, key, err := memd.ParseLEB128(field)
	switch {
	case err != nil:
		return 0, field, "Malformed or non-canonical collection id"
	case len(key) == 0:
		return cid, key, "Key length must be at least 1 without the collection id"
	case cid >= 1 && cid <= 7:
		return cid, key, "Reserved collection id"
	case cid == 0 && len(key) > store.MaxKey:
		return cid, key, "Logical key exceeds 250 bytes"
	case cid != 0 && len(key) > maxCollectionKey, len(field) > store.MaxPrefixedKey:
		return cid, key, "Logical key exceeds 246 bytes"
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
		if rq.p.Opcode.Known() || retired(rq.p.Opcode) {
			return reply{status: memd.StatusNotSupported}, nil
		}
		return reply{status: memd.StatusUnknownCommand}, nil
	}
	if rep := rq.checkFrames(); rep.status != memd.StatusSuccess {
		return rep, nil
	}
	if rep := rq.checkForm(); rep.status != memd.StatusSuccess {
		return rep, nil
	}
	if sp.bucket && rq.b == nil {
		return fail(memd.StatusNoBucket, "No bucket selected"), nil
	}
	if sp.bucket && rq.b.unknows(rq.p.Opcode) || rq.level > 0 && rq.b.memcached() {
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

// checkFrames reads the framing extras. A frame that the node does not know is refused, never skipped: its sender
// relies on it.
func (rq *request) checkFrames() reply {
	if rq.p.Magic == memd.MagicReqExt && !rq.features.Has(memd.FeatureAltRequest) {
		return fail(memd.StatusInvalid, "AltRequestSupport is not enabled for the connection")
	}
	if rq.spec.durable && rq.b != nil {
		rq.level = rq.b.level
	}
	for frames := rq.p.Frames; len(frames) > 0; {
		id, data, tail, err := memd.NextFrame(frames)
		if err != nil {
			return fail(memd.StatusInvalid, "Framing extras are malformed")
		}
		frames = tail
		if rep := rq.frame(id, data); rep.status != memd.StatusSuccess {
			return rep
		}
	}
	return reply{}
}

func (rq *request) frame(id memd.FrameID, data []byte) reply {
	switch id {
	case memd.FrameBarrier:
		if len(data) != 0 {
			return fail(memd.StatusInvalid, "Barrier must be empty")
		}
	case memd.FrameDurability:
		return rq.durabilityFrame(data)
	case memd.FramePreserveTTL:
		if len(data) != 0 {
			return fail(memd.StatusInvalid, "PreserveTtl must be empty")
		}
		if !rq.spec.preserve {
			return fail(memd.StatusNotSupported, "%v does not take PreserveTtl", rq.p.Opcode)
		}
		rq.preserve = true
	case memd.FrameImpersonateUser:
		if len(data) == 0 {
			return fail(memd.StatusInvalid, "Impersonated user must not be empty")
		}
		rq.impersonal = string(data)
	case memd.FrameImpersonatePriv:
		if len(data) == 0 {
			return fail(memd.StatusInvalid, "Privilege must not be empty")
		}
	default:
		return fail(memd.StatusUnknownFrameInfo, "Unknown frame info %d", id)
	}
	return reply{}
}

func (rq *request) durabilityFrame(data []byte) reply {
	level, timeout, ok := memd.ParseDurability(data)
	switch {
	case !ok:
		return fail(memd.StatusInvalid, "Durability frame has %d bytes", len(data))
	case !rq.spec.durable && !rq.spec.fleeting:
		return fail(memd.StatusInvalid, "%v does not take a durability requirement", rq.p.Opcode)
	case !rq.features.Has(memd.FeatureSyncReplication):
		return fail(memd.StatusInvalid, "SyncReplication is not enabled for the connection")
	case level == memd.DurabilityNone:
		return fail(memd.StatusInvalid, "Durability level none must not be sent")
	case level > memd.DurabilityPersistToMajority:
		return fail(memd.StatusDurabilityInvalidLevel, "Unknown durability level")
	case len(data) == 3 && (timeout == 0 || timeout == 0xffff):
		return fail(memd.StatusInvalid, "Durability timeout %d is not allowed", timeout)
	}
	rq.level = max(rq.level, level)
	rq.timeout = time.Duration(timeout) * time.Millisecond
	return reply{}
}

// checkForm compares the request's fields with its row of the table.
func (rq *request) checkForm() reply {
	sp, p := rq.spec, rq.p
	extras := sp.extras
	if extras == nil {
		extras = []int{0}
	}
	switch {
	case !slices.Contains(extras, len(p.Extras)):
		return fail(memd.StatusInvalid, "Request has %d bytes of extras", len(p.Extras))
	case sp.key == keyNone && len(p.Key) > 0:
		return fail(memd.StatusInvalid, "Request must not include key")
	case sp.key == keyNeeded && len(p.Key) == 0:
		return fail(memd.StatusInvalid, "Request must include key")
	case rq.keyErr != "":
		return fail(memd.StatusInvalid, "%s", rq.keyErr)
	case sp.value == valueNone && len(p.Value) > 0:
		return fail(memd.StatusInvalid, "Request must not include value")
	case sp.value == valueNeeded && len(p.Value) == 0:
		return fail(memd.StatusInvalid, "Request must include value")
	case sp.cas == casZero && p.CAS != 0:
		return fail(memd.StatusInvalid, "CAS must not be set")
	case sp.cas == casSet && p.CAS == 0:
		return fail(memd.StatusInvalid, "CAS must be set")
	}
	return rq.checkDatatype()
}

func (rq *request) checkDatatype() reply {
	dt := rq.p.Datatype
	allowed := rq.spec.datatypes
	if rq.spec.document {
		allowed = memd.DatatypeJSON | memd.DatatypeSnappy
	}
	switch {
	case dt&^allowed != 0:
		return fail(memd.StatusInvalid, "Datatype 0x%02x is not allowed for %v", uint8(dt), rq.p.Opcode)
	case dt&memd.DatatypeJSON != 0 && !rq.features.Has(memd.FeatureJSON):
		return fail(memd.StatusInvalid, "Datatype (JSON) not enabled for the connection")
	case dt&memd.DatatypeSnappy != 0 && !snappy(rq.features):
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
