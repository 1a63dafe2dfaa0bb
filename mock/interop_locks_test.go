package mock_test

import (
	"slices"

	"github.com/couchcore/couchcore/memd"
)

// What CouchbaseMock does otherwise with locks, whether the client has XERROR or not.
var locksDiffer = []difference{
	{
		topic: "a CAS with GET, TOUCH, ADD, counters",
		ops:   []memd.Opcode{memd.OpGetLocked}, when: namesCAS, ours: "0x04", theirs: "0x01|0x86",
		why: "kv_engine refuses it as invalid (mcbp_validators.cc, ExpectedCas::NotSet)",
	},
	{
		topic: "a CAS with GET, TOUCH, ADD, counters",
		ops:   []memd.Opcode{memd.OpGetLocked}, when: namesCAS, ours: "0x04", theirs: "0x00.*", differ: true,
		why: "CouchbaseMock locks",
	},
	{
		topic: "UNLOCK_KEY without a CAS",
		ops:   []memd.Opcode{memd.OpUnlockKey}, ours: "0x04", theirs: "0x01|0x86",
		why: "kv_engine refuses it as invalid (mcbp_validators.cc)",
	},
	{
		topic: "counters of a locked document",
		ops:   []memd.Opcode{memd.OpIncrement, memd.OpDecrement}, when: locked, ours: "0x0[29]", theirs: "0x86",
		why: "kv_engine answers as to any other write (arithmetic_context.cc)",
	},
	{
		topic: "counters of a locked document",
		ops:   []memd.Opcode{memd.OpIncrement, memd.OpDecrement}, when: locked, ours: "0x06", theirs: "0x86",
		why: "and counts before the lock is looked at",
	},
	{
		topic: "APPEND, PREPEND of a locked document",
		ops:   []memd.Opcode{memd.OpAppend, memd.OpPrepend}, when: locked,
		ours: "0x00.*", theirs: "0x02", differ: true,
		why: "CouchbaseMock compares the CAS with the one that reads tell of a locked document",
	},
	{
		topic: "the order of judging",
		ops:   append(slices.Clone(changingOps), memd.OpSubdocMultiMutation), when: locked,
		ours: "0x86|0x09", theirs: "0xc.*",
		why: "kv_engine looks at the lock before all that if the request has no CAS (subdocument_context.cc)",
	},
	{
		topic: "the delta of a counter in a document",
		ops:   []memd.Opcode{memd.OpSubdocCounter}, when: locked, ours: "0xc8", theirs: "0x0[29]",
		why: "CouchbaseMock takes an array with one number for it, and then sees the lock",
	},
	{
		topic: "ARRAY_ADD_UNIQUE of what is no single value",
		ops:   []memd.Opcode{memd.OpSubdocArrayAddUnique}, when: locked, ours: "0xc5", theirs: "0x0[29]", stray: true,
		why: "where CouchbaseMock takes it, it sees the lock",
	},
	{
		topic: "the CAS after a lock",
		ops:   slices.Concat([]memd.Opcode{memd.OpGet, memd.OpGAT, memd.OpSubdocMultiLookup}, lookingOps),
		when:  unlocked, ours: "0x.* new CAS", theirs: "0x.* same CAS", same: true,
		why: "a document has its own CAS again when it is unlocked (kv_engine since 7.2.4, MB-59746)",
	},
	{
		topic: "the CAS after a lock",
		ops:   takingOps,
		when:  func(before []step, st step) bool { return st.cas == lastCAS && unlocked(before, st) },
		ours:  "0x02", theirs: "0x00.*", differ: true,
		why: "and refuses the CAS of the lock from then on",
	},
	{
		topic: "the CAS after a lock",
		ops:   takingOps,
		when:  func(before []step, st step) bool { return st.cas == formerCAS && unlocked(before, st) },
		ours:  "0x00.*", theirs: "0x02( with a CAS)?", differ: true,
		why: "and the one from before counts",
	},
}

// What CouchbaseMock does otherwise with the locks of a client without XERROR.
var oldLocksDiffer = []difference{
	{
		topic: "statuses of locked documents",
		ops:   append(slices.Clone(changingOps), memd.OpSubdocMultiMutation), when: locked,
		ours: "0x86", theirs: "0x02( with a CAS)?",
		why: "kv_engine tells clients without XERROR to try again (subdocument.cc, remapErrorCode)",
	},
	{
		topic: "statuses of locked documents",
		ops:   []memd.Opcode{memd.OpDelete}, when: locked, ours: "0x86", theirs: "0x02( with a CAS)?",
		why: "and those that remove one with another CAS (VBucket::deleteItem)",
	},
	{
		topic: "refusals",
		ops:   []memd.Opcode{memd.OpDelete}, when: locked, ours: "0x02", theirs: "0x02 with a CAS",
		why: "a refusal of kv_engine has no CAS",
	},
}

// And with those of a client that has it.
var newLocksDiffer = []difference{
	{
		topic: "statuses of locked documents",
		ops:   []memd.Opcode{memd.OpGetLocked}, when: locked, ours: "0x09", theirs: "0x86",
		why: "kv_engine tells those that have XERROR that a document is locked (get_locked_context.cc)",
	},
	{
		topic: "statuses of locked documents",
		ops:   []memd.Opcode{memd.OpUnlockKey}, when: locked, ours: "0x09", theirs: "0x86",
		why: "and locked with another CAS (KVBucket::unlockKey)",
	},
	{
		topic: "statuses of locked documents",
		ops:   []memd.Opcode{memd.OpUnlockKey}, ours: "0x0e", theirs: "0x86",
		why: "or not locked",
	},
	{
		topic: "statuses of locked documents",
		ops:   []memd.Opcode{memd.OpAdd}, when: locked, ours: "0x02", theirs: "0x09",
		why: "one that is there cannot be added, locked or not (VBucket::processAdd)",
	},
	{
		topic: "APPEND, PREPEND of a locked document",
		ops:   []memd.Opcode{memd.OpAppend, memd.OpPrepend}, when: locked, ours: "0x09", theirs: "0x02",
		why: "another CAS than the lock's is no more than a lock (appendprepend_context.cc)",
	},
	{
		topic: "refusals",
		ops:   []memd.Opcode{memd.OpSet, memd.OpReplace, memd.OpDelete, memd.OpSubdocMultiMutation}, when: locked,
		ours: "0x09", theirs: "0x09 with a CAS",
		why: "a refusal of kv_engine has no CAS",
	},
}

// takingOps are the commands that take a CAS and change the document.
var takingOps = slices.Concat([]memd.Opcode{
	memd.OpSet, memd.OpReplace, memd.OpDelete, memd.OpAppend, memd.OpPrepend, memd.OpSubdocMultiMutation,
}, changingOps)

// locked and unlocked report whether the document has been so, even if it is not at the step.
func locked(before []step, _ step) bool {
	return slices.ContainsFunc(before, func(b step) bool { return b.op == memd.OpGetLocked })
}

func unlocked(before []step, _ step) bool {
	return slices.ContainsFunc(before, func(b step) bool { return b.op == memd.OpUnlockKey || b.passes > 0 })
}
