package mock

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
)

const (
	storeUser  = uint32(9) // a collection
	storeKey   = "k"
	storeValue = "10" // a number, so that counters have something to count
)

var storeStart = time.Date(2030, 1, 2, 3, 4, 5, 600, time.UTC)

// storeTest is a store of one vbucket on nodes 0 (active) and 1, with its own clock.
type storeTest struct {
	*store
	now time.Time
}

func newStoreTest() *storeTest {
	s := &storeTest{newStore(1), storeStart}
	s.assign(0, []int{0, 1})
	return s
}

func (s *storeTest) do(op memd.Opcode, change func(*docOp)) docResult {
	o := docOp{op: op, cid: storeUser, key: []byte(storeKey)}
	switch op {
	case memd.OpSet, memd.OpAdd, memd.OpReplace, memd.OpAppend, memd.OpPrepend:
		o.value, o.flags = []byte("5"), 77
		o.datatype = valueType(o.value)
	case memd.OpIncrement, memd.OpDecrement:
		o.delta, o.initial = 3, 100
	}
	if change != nil {
		change(&o)
	}
	return s.apply(&o, s.now)
}

func cas(c uint64) func(*docOp) { return func(o *docOp) { o.cas = c } }

func expiry(e uint32) func(*docOp) { return func(o *docOp) { o.expiry = e } }

func (s *storeTest) set(t *testing.T, value string, expiry uint32) docResult {
	t.Helper()
	res := s.do(memd.OpSet, func(o *docOp) { o.value, o.expiry, o.flags = []byte(value), expiry, 42 })
	require.Equal(t, memd.StatusSuccess, res.status)
	return res
}

// storeStates brings the document into a state and returns the CAS that a client would use.
var storeStates = map[string]func(t *testing.T, s *storeTest) uint64{
	"missing": func(*testing.T, *storeTest) uint64 { return 1 },
	"deleted": func(t *testing.T, s *storeTest) uint64 {
		c := s.set(t, storeValue, 0).cas
		require.Equal(t, memd.StatusSuccess, s.do(memd.OpDelete, nil).status)
		return c
	},
	"expired": func(t *testing.T, s *storeTest) uint64 {
		c := s.set(t, storeValue, 5).cas
		s.now = s.now.Add(5 * time.Second)
		return c
	},
	"live": func(t *testing.T, s *storeTest) uint64 { return s.set(t, storeValue, 0).cas },
	"almost expired": func(t *testing.T, s *storeTest) uint64 {
		c := s.set(t, storeValue, 5).cas
		s.now = s.now.Add(4 * time.Second)
		return c
	},
	"locked": func(t *testing.T, s *storeTest) uint64 {
		s.set(t, storeValue, 0)
		return s.do(memd.OpGetLocked, nil).cas
	},
	"lock ended": func(t *testing.T, s *storeTest) uint64 {
		s.set(t, storeValue, 0)
		c := s.do(memd.OpGetLocked, nil).cas
		s.now = s.now.Add(15 * time.Second)
		return c
	},
}

const (
	success   = memd.StatusSuccess
	notFound  = memd.StatusKeyNotFound
	exists    = memd.StatusKeyExists
	notStored = memd.StatusNotStored
	isLocked  = memd.StatusLocked
	notLocked = memd.StatusNotLocked
)

// storeStatuses are the statuses without a CAS, with the right and with a wrong one, for a document that is absent,
// present, or locked. Operations that take no CAS have one status.
var storeStatuses = map[memd.Opcode]struct{ absent, present, locked []memd.Status }{
	memd.OpGet:        {[]memd.Status{notFound}, []memd.Status{success}, []memd.Status{success}},
	memd.OpGetReplica: {[]memd.Status{notFound}, []memd.Status{success}, []memd.Status{success}},
	memd.OpSet: {
		[]memd.Status{success, notFound, notFound},
		[]memd.Status{success, success, exists},
		[]memd.Status{isLocked, success, isLocked},
	},
	memd.OpAdd: {[]memd.Status{success}, []memd.Status{exists}, []memd.Status{exists}},
	memd.OpReplace: {
		[]memd.Status{notFound, notFound, notFound},
		[]memd.Status{success, success, exists},
		[]memd.Status{isLocked, success, isLocked},
	},
	memd.OpDelete: {
		[]memd.Status{notFound, notFound, notFound},
		[]memd.Status{success, success, exists},
		[]memd.Status{isLocked, success, isLocked},
	},
	memd.OpAppend: {
		[]memd.Status{notStored, notStored, notStored},
		[]memd.Status{success, success, exists},
		[]memd.Status{isLocked, success, isLocked},
	},
	memd.OpPrepend: {
		[]memd.Status{notStored, notStored, notStored},
		[]memd.Status{success, success, exists},
		[]memd.Status{isLocked, success, isLocked},
	},
	memd.OpIncrement: {[]memd.Status{success}, []memd.Status{success}, []memd.Status{isLocked}},
	memd.OpDecrement: {[]memd.Status{success}, []memd.Status{success}, []memd.Status{isLocked}},
	memd.OpTouch:     {[]memd.Status{notFound}, []memd.Status{success}, []memd.Status{isLocked}},
	memd.OpGAT:       {[]memd.Status{notFound}, []memd.Status{success}, []memd.Status{isLocked}},
	memd.OpGetLocked: {[]memd.Status{notFound}, []memd.Status{success}, []memd.Status{isLocked}},
	memd.OpUnlockKey: {
		[]memd.Status{notFound, notFound, notFound},
		[]memd.Status{notLocked, notLocked, notLocked},
		[]memd.Status{isLocked, success, isLocked},
	},
}

// dump is everything that the store has, for comparison.
func (s *storeTest) dump() string {
	v := &s.vbs[0]
	return fmt.Sprintln(v.seqno, v.copies[0], v.copies[1], len(s.applied))
}

func TestStoreEveryOperationInEveryState(t *testing.T) {
	for op, want := range storeStatuses {
		for state, enter := range storeStates {
			statuses := want.present
			switch state {
			case "missing", "deleted", "expired":
				statuses = want.absent
			case "locked":
				statuses = want.locked
			}
			for i, status := range statuses {
				t.Run(fmt.Sprintf("%v/%s/%s", op, state, [...]string{"no CAS", "right CAS", "wrong CAS"}[i]), func(t *testing.T) {
					s := newStoreTest()
					c := enter(t, s)
					before, seqno, log := s.dump(), s.vbs[0].seqno, len(s.applied)
					res := s.do(op, cas([...]uint64{0, c, c + 1}[i]))
					require.Equal(t, status, res.status)
					switch {
					case status != success:
						require.Equal(t, before, s.dump(), "a failure changes nothing")
						require.Zero(t, res.cas)
					case op == memd.OpGet || op == memd.OpGetReplica:
						require.Equal(t, before, s.dump(), "a read changes nothing")
						require.Equal(t, storeValue, string(res.value))
						require.EqualValues(t, 42, res.flags)
						if state == "locked" {
							require.Equal(t, uint64(math.MaxUint64), res.cas)
						}
					case op == memd.OpGetLocked || op == memd.OpUnlockKey:
						require.Equal(t, seqno, s.vbs[0].seqno)
						require.Len(t, s.applied, log, "a lock is no mutation")
					default:
						s.requireApplied(t, op, res, seqno, log)
					}
				})
			}
		}
	}
}

// requireApplied checks what every mutation has in common.
func (s *storeTest) requireApplied(t *testing.T, op memd.Opcode, res docResult, seqno uint64, log int) {
	t.Helper()
	require.Equal(t, seqno+1, res.seqno)
	require.Equal(t, s.vbs[0].history[0].uuid, res.uuid)
	require.Len(t, s.applied, log+1)
	a := s.applied[log]
	require.Greater(t, a.CASAfter, a.CASBefore)
	require.Equal(t, res.cas, a.CASAfter)
	require.Equal(t, op, a.Opcode)
	require.Equal(t, storeUser, a.Collection)
	require.Equal(t, storeKey, a.Key)
	require.Equal(t, s.now, a.At)
	require.Equal(t, s.vbs[0].copies[0], s.vbs[0].copies[1], "replicas are not behind")
	if op == memd.OpDelete {
		require.Equal(t, notFound, s.do(memd.OpGet, nil).status)
		return
	}
	require.Equal(t, success, s.do(memd.OpGet, nil).status)
	require.Equal(t, notLocked, s.do(memd.OpUnlockKey, cas(res.cas)).status, "a mutation ends a lock")
}

func TestStoreValues(t *testing.T) {
	long := strings.Repeat("9", 20)
	for name, row := range map[string]struct {
		stored string
		op     memd.Opcode
		change func(*docOp)
		status memd.Status
		value  string
		number uint64
	}{
		"set":              {storeValue, memd.OpSet, nil, success, "5", 0},
		"append":           {storeValue, memd.OpAppend, nil, success, "105", 0},
		"prepend":          {storeValue, memd.OpPrepend, nil, success, "510", 0},
		"increment":        {storeValue, memd.OpIncrement, nil, success, "13", 13},
		"decrement":        {storeValue, memd.OpDecrement, nil, success, "7", 7},
		"floor":            {"2", memd.OpDecrement, nil, success, "0", 0},
		"wrap":             {"18446744073709551614", memd.OpIncrement, nil, success, "1", 1},
		"delta 0":          {"7", memd.OpIncrement, func(o *docOp) { o.delta = 0 }, success, "7", 7},
		"seed":             {"", memd.OpIncrement, nil, success, "100", 100},
		"seed by less":     {"", memd.OpDecrement, nil, success, "100", 100},
		"no seed":          {"", memd.OpIncrement, expiry(math.MaxUint32), notFound, "", 0},
		"not a number":     {"x1", memd.OpIncrement, nil, memd.StatusDeltaBadVal, "x1", 0},
		"negative":         {"-1", memd.OpIncrement, nil, memd.StatusDeltaBadVal, "-1", 0},
		"fraction":         {"1.5", memd.OpDecrement, nil, memd.StatusDeltaBadVal, "1.5", 0},
		"number too large": {long, memd.OpIncrement, nil, memd.StatusDeltaBadVal, long, 0},
	} {
		s := newStoreTest()
		if row.stored != "" {
			s.set(t, row.stored, 0)
		}
		res := s.do(row.op, row.change)
		require.Equal(t, row.status, res.status, name)
		require.Equal(t, row.number, res.number, name)
		got := s.do(memd.OpGet, nil)
		require.Equal(t, row.value, string(got.value), name)
		if row.status == success {
			require.Equal(t, valueType([]byte(row.value)), got.datatype, name)
		}
		if row.stored == "" && row.status == success {
			require.Zero(t, got.flags, "a counter begins without flags")
		}
	}
}

func TestStoreValueLimit(t *testing.T) {
	s := newStoreTest()
	big := bytes.Repeat([]byte("x"), maxValue)
	with := func(b []byte) func(*docOp) { return func(o *docOp) { o.value = b } }
	require.Equal(t, memd.StatusTooBig, s.do(memd.OpSet, with(append(big, 'x'))).status)
	require.Equal(t, success, s.do(memd.OpSet, with(big)).status)
	before := len(s.applied)
	require.Equal(t, memd.StatusTooBig, s.do(memd.OpAppend, nil).status)
	require.Equal(t, memd.StatusTooBig, s.do(memd.OpPrepend, nil).status)
	require.Equal(t, success, s.do(memd.OpAppend, with(nil)).status)
	require.Len(t, s.applied, before+1)
	require.Len(t, s.do(memd.OpGet, nil).value, maxValue)
}

func TestStoreDatatypeFollowsTheValue(t *testing.T) {
	s := newStoreTest()
	s.do(memd.OpSet, func(o *docOp) { o.value, o.datatype = []byte(`[1`), valueType([]byte(`[1`)) })
	require.Zero(t, s.do(memd.OpGet, nil).datatype)
	s.do(memd.OpAppend, func(o *docOp) { o.value = []byte("]") })
	require.Equal(t, memd.DatatypeJSON, s.do(memd.OpGet, nil).datatype)
	s.do(memd.OpPrepend, func(o *docOp) { o.value = []byte("]") })
	require.Zero(t, s.do(memd.OpGet, nil).datatype)
}

func TestStoreExpiry(t *testing.T) {
	const month = 30 * 24 * 3600
	at := uint32(storeStart.Unix())
	for name, row := range map[string]struct{ asked, want uint32 }{
		"none":              {0, 0},
		"a second":          {1, at + 1},
		"a month":           {month, at + month},
		"the past":          {month + 1, month + 1},
		"an absolute time":  {at + 5, at + 5},
		"the largest there": {math.MaxUint32, math.MaxUint32},
	} {
		for _, op := range []memd.Opcode{memd.OpSet, memd.OpAdd, memd.OpReplace, memd.OpTouch, memd.OpGAT, memd.OpIncrement} {
			if op == memd.OpIncrement && row.asked == math.MaxUint32 {
				continue // means something else there
			}
			s := newStoreTest()
			if op != memd.OpAdd && op != memd.OpIncrement {
				s.set(t, storeValue, 1000)
			}
			require.Equal(t, success, s.do(op, expiry(row.asked)).status, name)
			meta := s.do(memd.OpGetMeta, nil)
			require.Equal(t, row.want, meta.expiry, "%s %v", name, op)
			alive := row.want == 0 || row.want > at
			require.Equal(t, alive, s.do(memd.OpGet, nil).status == success, "%s %v", name, op)
			require.Equal(t, !alive, meta.deleted, "%s %v", name, op)
		}
	}
}

func TestStoreWhatKeepsTheExpiry(t *testing.T) {
	keeps := map[memd.Opcode]bool{
		memd.OpSet: false, memd.OpReplace: false, memd.OpAppend: true, memd.OpPrepend: true, memd.OpIncrement: true,
		memd.OpDecrement: true,
	}
	for op, kept := range keeps {
		for _, preserve := range []bool{false, true} {
			s := newStoreTest()
			s.set(t, storeValue, 50)
			want := s.do(memd.OpGetMeta, nil).expiry
			require.Equal(t, success, s.do(op, func(o *docOp) { o.expiry, o.preserveTTL = 7, preserve }).status)
			got := s.do(memd.OpGetMeta, nil).expiry
			require.Equal(t, kept || preserve, got == want, "%v %v", op, preserve)
		}
	}
	s := newStoreTest()
	require.Equal(t, success, s.do(memd.OpSet, func(o *docOp) { o.expiry, o.preserveTTL = 7, true }).status)
	require.EqualValues(t, storeStart.Unix()+7, s.do(memd.OpGetMeta, nil).expiry, "nothing to preserve")
}

func TestStoreLockTimes(t *testing.T) {
	for seconds, want := range map[uint32]time.Duration{
		0: 15 * time.Second, 1: time.Second, 30: 30 * time.Second, 31: 15 * time.Second, math.MaxUint32: 15 * time.Second,
	} {
		s := newStoreTest()
		s.set(t, storeValue, 0)
		require.Equal(t, success, s.do(memd.OpGetLocked, func(o *docOp) { o.lock = seconds }).status)
		s.now = storeStart.Add(want - 1)
		require.Equal(t, isLocked, s.do(memd.OpSet, nil).status, seconds)
		s.now = storeStart.Add(want)
		require.Equal(t, success, s.do(memd.OpSet, nil).status, seconds)
	}
}

func TestStoreUnlockKeepsTheLocksCAS(t *testing.T) {
	s := newStoreTest()
	first := s.set(t, storeValue, 0).cas
	lock := s.do(memd.OpGetLocked, nil)
	require.Greater(t, lock.cas, first)
	require.Equal(t, storeValue, string(lock.value))
	require.Equal(t, success, s.do(memd.OpUnlockKey, cas(lock.cas)).status)
	require.Equal(t, lock.cas, s.do(memd.OpGet, nil).cas)
	require.Equal(t, exists, s.do(memd.OpSet, cas(first)).status)
}

func TestStoreMetaOfTombstones(t *testing.T) {
	s := newStoreTest()
	require.Equal(t, notFound, s.do(memd.OpGetMeta, nil).status)
	s.set(t, storeValue, 0)
	meta := s.do(memd.OpGetMeta, nil)
	require.False(t, meta.deleted)
	require.EqualValues(t, 42, meta.flags)
	gone := s.do(memd.OpDelete, nil)
	meta = s.do(memd.OpGetMeta, nil)
	require.True(t, meta.deleted)
	require.Equal(t, gone.cas, meta.cas)
	require.Equal(t, gone.seqno, meta.seqno)
	s.do(memd.OpAdd, nil)
	require.False(t, s.do(memd.OpGetMeta, nil).deleted)
}

func TestStoreCASFollowsTheClockAndIsUnique(t *testing.T) {
	s := newStoreTest()
	last := uint64(0)
	for i := range 100 {
		if i == 50 {
			s.now = s.now.Add(-time.Hour) // a clock may be set back
		}
		c := s.set(t, storeValue, 0).cas
		require.Greater(t, c, last)
		last = c
	}
	s.now = storeStart.Add(time.Minute)
	c := s.set(t, storeValue, 0).cas
	require.InDelta(t, float64(s.now.UnixNano()), float64(c), 1<<16)
}

func TestStoreCollectionsAndVBucketsAreApart(t *testing.T) {
	s := &storeTest{newStore(2), storeStart}
	for vb := range 2 {
		s.assign(vb, []int{vb})
	}
	in := func(vb uint16, cid uint32) func(*docOp) {
		return func(o *docOp) { o.vb, o.cid, o.node = vb, cid, int(vb) }
	}
	for vb := range uint16(2) {
		for _, cid := range []uint32{0, storeUser} {
			require.Equal(t, success, s.do(memd.OpAdd, in(vb, cid)).status)
		}
	}
	require.Len(t, s.documents(s.now), 4)
	s.dropCollection(storeUser)
	for vb := range uint16(2) {
		require.Equal(t, success, s.do(memd.OpGet, in(vb, 0)).status)
		require.Equal(t, notFound, s.do(memd.OpGet, in(vb, storeUser)).status)
		require.Equal(t, notFound, s.do(memd.OpGetMeta, in(vb, storeUser)).status, "no tombstone either")
	}
	require.Equal(t, memd.StatusNotMyVBucket, s.do(memd.OpGet, func(o *docOp) { o.vb, o.node = 1, 0 }).status)
}

func TestStoreApplyLog(t *testing.T) {
	s := newStoreTest()
	value := strings.Repeat("t", maxToken) + "rest"
	s.do(memd.OpSet, func(o *docOp) { o.value = []byte(value) })
	require.Equal(t, value[:maxToken], s.log()[0].Token)
	s.log()[0].Key = "changed"
	require.Equal(t, storeKey, s.log()[0].Key, "a caller has a copy of its own")

	tokens := func() []string {
		var out []string
		for _, a := range s.log() {
			out = append(out, a.Token)
		}
		return out
	}
	put := func(i int) { s.do(memd.OpSet, func(o *docOp) { o.value = fmt.Append(nil, i) }) }
	for i := range 10 {
		put(i)
	}
	s.limit(3)
	require.Equal(t, []string{"7", "8", "9"}, tokens())
	for i := 10; i < 100; i++ {
		put(i)
		require.Equal(t, []string{fmt.Sprint(i - 2), fmt.Sprint(i - 1), fmt.Sprint(i)}, tokens())
		require.LessOrEqual(t, cap(s.applied), 12, "old entries are let go of")
	}
	s.limit(0)
	put(100)
	put(101)
	require.Len(t, s.log(), 5, "no limit any more")
}

// elsewhere are tests of their own: of what has paths, metadata, or a name of its own for an operation that has a row.
func elsewhere(op memd.Opcode) bool {
	return specs[op] == pathLookup || specs[op] == pathMutation || op == memd.OpSubdocMultiMutation ||
		slices.Contains(noDurability, op) || baseForm(op) != op
}

func TestStoreStatusTableHasEveryDocumentOperation(t *testing.T) {
	var missing []memd.Opcode
	for i, sp := range specs {
		op := memd.Opcode(i)
		_, ok := storeStatuses[op]
		if sp != nil && sp.mutates && !ok && !elsewhere(op) {
			missing = append(missing, op)
		}
	}
	require.Empty(t, missing)
}

func TestStoreCollectionsLimitTheLifeOfDocuments(t *testing.T) {
	for _, row := range []struct {
		maxTTL int32
		expiry uint32
		want   int64 // seconds from now, 0 for never
	}{
		{0, 0, 0}, {0, 50, 50}, {100, 0, 100}, {100, 50, 50}, {100, 500, 100}, {-1, 50, 0}, {-1, 0, 0},
	} {
		s := newStoreTest()
		with := func(o *docOp) { o.maxTTL, o.expiry = row.maxTTL, row.expiry }
		for _, op := range []memd.Opcode{memd.OpAdd, memd.OpSet, memd.OpReplace, memd.OpTouch, memd.OpGAT} {
			res := s.do(op, with)
			require.Equal(t, success, res.status)
			want := int64(0)
			if row.want > 0 {
				want = s.now.Unix() + row.want
			}
			require.Equal(t, want, int64(res.expiry), "%v %+v", op, row)
		}
	}
}
