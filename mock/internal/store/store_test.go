package store

import (
	"bytes"
	"fmt"
	"math"
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
	*Store
	now time.Time
}

func newStoreTest() *storeTest {
	s := &storeTest{New(1), storeStart}
	s.Assign(0, []int{0, 1})
	return s
}

func (s *storeTest) do(op memd.Opcode, change func(*Op)) Result {
	o := Op{Opcode: op, Collection: storeUser, Key: []byte(storeKey)}
	switch op {
	case memd.OpSet, memd.OpAdd, memd.OpReplace, memd.OpAppend, memd.OpPrepend:
		o.Value, o.Flags = []byte("5"), 77
		o.Datatype = ValueType(o.Value)
	case memd.OpIncrement, memd.OpDecrement:
		o.Delta, o.Initial = 3, 100
	case memd.OpTouch, memd.OpGAT:
		o.Expiry = 99 // another than it has: see TestATouchThatChangesNothing
	}
	if change != nil {
		change(&o)
	}
	return s.Apply(&o, s.now)
}

func cas(c uint64) func(*Op) { return func(o *Op) { o.CAS = c } }

func expiry(e uint32) func(*Op) { return func(o *Op) { o.Expiry = e } }

func TestATouchThatChangesNothing(t *testing.T) {
	for _, op := range []memd.Opcode{memd.OpTouch, memd.OpGAT} {
		s := newStoreTest()
		cas := s.set(t, storeValue, 5).CAS
		before := s.dump()
		res := s.do(op, expiry(5))
		require.Equal(t, memd.StatusSuccess, res.Status)
		require.Equal(t, cas, res.CAS)
		require.Equal(t, before, s.dump(), "%v", op)
	}
}

func (s *storeTest) set(t *testing.T, value string, expiry uint32) Result {
	t.Helper()
	res := s.do(memd.OpSet, func(o *Op) { o.Value, o.Expiry, o.Flags = []byte(value), expiry, 42 })
	require.Equal(t, memd.StatusSuccess, res.Status)
	return res
}

// storeStates brings the document into a state and returns the CAS that a client would use.
var storeStates = map[string]func(t *testing.T, s *storeTest) uint64{
	"missing": func(*testing.T, *storeTest) uint64 { return 1 },
	"deleted": func(t *testing.T, s *storeTest) uint64 {
		c := s.set(t, storeValue, 0).CAS
		require.Equal(t, memd.StatusSuccess, s.do(memd.OpDelete, nil).Status)
		return c
	},
	"expired": func(t *testing.T, s *storeTest) uint64 {
		c := s.set(t, storeValue, 5).CAS
		s.now = s.now.Add(6 * time.Second)
		return c
	},
	"live": func(t *testing.T, s *storeTest) uint64 { return s.set(t, storeValue, 0).CAS },
	"almost expired": func(t *testing.T, s *storeTest) uint64 {
		c := s.set(t, storeValue, 5).CAS
		s.now = s.now.Add(5 * time.Second)
		return c
	},
	"locked": func(t *testing.T, s *storeTest) uint64 {
		s.set(t, storeValue, 0)
		return s.do(memd.OpGetLocked, nil).CAS
	},
	"lock ended": func(t *testing.T, s *storeTest) uint64 {
		c := s.set(t, storeValue, 0).CAS
		s.do(memd.OpGetLocked, nil)
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
				t.Run(fmt.Sprintf("%v/%s/%s", op, state, [...]string{"no CAS", "right CAS", "wrong CAS"}[i]),
					func(t *testing.T) {
						s := newStoreTest()
						c := enter(t, s)
						before, seqno, log := s.dump(), s.vbs[0].seqno, len(s.applied)
						res := s.do(op, cas([...]uint64{0, c, c + 1}[i]))
						require.Equal(t, status, res.Status)
						switch {
						case status != success:
							require.Equal(t, before, s.dump(), "a failure changes nothing")
							require.Zero(t, res.CAS)
						case op == memd.OpGet || op == memd.OpGetReplica:
							require.Equal(t, before, s.dump(), "a read changes nothing")
							require.Equal(t, storeValue, string(res.Value))
							require.EqualValues(t, 42, res.Flags)
							if state == "locked" {
								require.Equal(t, uint64(math.MaxUint64), res.CAS)
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
func (s *storeTest) requireApplied(t *testing.T, op memd.Opcode, res Result, seqno uint64, log int) {
	t.Helper()
	require.Equal(t, seqno+1, res.Seqno)
	require.Equal(t, s.vbs[0].history[0].UUID, res.UUID)
	require.Len(t, s.applied, log+1)
	a := s.applied[log]
	require.Greater(t, a.CASAfter, a.CASBefore)
	require.Equal(t, res.CAS, a.CASAfter)
	require.Equal(t, op, a.Opcode)
	require.Equal(t, storeUser, a.Collection)
	require.Equal(t, storeKey, a.Key)
	require.Equal(t, s.now, a.At)
	require.Equal(t, s.vbs[0].copies[0], s.vbs[0].copies[1], "replicas are not behind")
	if op == memd.OpDelete {
		require.Equal(t, notFound, s.do(memd.OpGet, nil).Status)
		return
	}
	require.Equal(t, success, s.do(memd.OpGet, nil).Status)
	require.Equal(t, notLocked, s.do(memd.OpUnlockKey, cas(res.CAS)).Status, "a mutation ends a lock")
}

func TestStoreValues(t *testing.T) {
	long := strings.Repeat("9", 20)
	for name, row := range map[string]struct {
		stored string
		op     memd.Opcode
		change func(*Op)
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
		"delta 0":          {"7", memd.OpIncrement, func(o *Op) { o.Delta = 0 }, success, "7", 7},
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
		require.Equal(t, row.status, res.Status, name)
		require.Equal(t, row.number, res.Number, name)
		got := s.do(memd.OpGet, nil)
		require.Equal(t, row.value, string(got.Value), name)
		if row.status == success {
			require.Equal(t, ValueType([]byte(row.value)), got.Datatype, name)
		}
		if row.stored == "" && row.status == success {
			require.Zero(t, got.Flags, "a counter begins without flags")
		}
	}
}

func TestStoreValueLimit(t *testing.T) {
	s := newStoreTest()
	big := bytes.Repeat([]byte("x"), MaxValue)
	with := func(b []byte) func(*Op) { return func(o *Op) { o.Value = b } }
	require.Equal(t, memd.StatusTooBig, s.do(memd.OpSet, with(append(big, 'x'))).Status)
	require.Equal(t, success, s.do(memd.OpSet, with(big)).Status)
	before := len(s.applied)
	require.Equal(t, memd.StatusTooBig, s.do(memd.OpAppend, nil).Status)
	require.Equal(t, memd.StatusTooBig, s.do(memd.OpPrepend, nil).Status)
	require.Equal(t, success, s.do(memd.OpAppend, with(nil)).Status)
	require.Len(t, s.applied, before+1)
	require.Len(t, s.do(memd.OpGet, nil).Value, MaxValue)
}

func TestStoreDatatypeFollowsTheValue(t *testing.T) {
	s := newStoreTest()
	s.do(memd.OpSet, func(o *Op) { o.Value, o.Datatype = []byte(`[1`), ValueType([]byte(`[1`)) })
	require.Zero(t, s.do(memd.OpGet, nil).Datatype)
	s.do(memd.OpAppend, func(o *Op) { o.Value = []byte("]") })
	require.Equal(t, memd.DatatypeJSON, s.do(memd.OpGet, nil).Datatype)
	s.do(memd.OpPrepend, func(o *Op) { o.Value = []byte("]") })
	require.Zero(t, s.do(memd.OpGet, nil).Datatype)
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
		for _, op := range []memd.Opcode{
			memd.OpSet, memd.OpAdd, memd.OpReplace, memd.OpTouch, memd.OpGAT,
			memd.OpIncrement,
		} {
			if op == memd.OpIncrement && row.asked == math.MaxUint32 {
				continue // means something else there
			}
			s := newStoreTest()
			if op != memd.OpAdd && op != memd.OpIncrement {
				s.set(t, storeValue, 1000)
			}
			require.Equal(t, success, s.do(op, expiry(row.asked)).Status, name)
			meta := s.do(memd.OpGetMeta, nil)
			require.Equal(t, row.want, meta.Expiry, "%s %v", name, op)
			alive := row.want == 0 || row.want > at
			require.Equal(t, alive, s.do(memd.OpGet, nil).Status == success, "%s %v", name, op)
			require.Equal(t, !alive, meta.Deleted, "%s %v", name, op)
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
			want := s.do(memd.OpGetMeta, nil).Expiry
			require.Equal(t, success, s.do(op, func(o *Op) { o.Expiry, o.PreserveTTL = 7, preserve }).Status)
			got := s.do(memd.OpGetMeta, nil).Expiry
			require.Equal(t, kept || preserve, got == want, "%v %v", op, preserve)
		}
	}
	s := newStoreTest()
	require.Equal(t, success, s.do(memd.OpSet, func(o *Op) { o.Expiry, o.PreserveTTL = 7, true }).Status)
	require.EqualValues(t, storeStart.Unix()+7, s.do(memd.OpGetMeta, nil).Expiry, "nothing to preserve")
}

func TestStoreMetaOfTombstones(t *testing.T) {
	s := newStoreTest()
	require.Equal(t, notFound, s.do(memd.OpGetMeta, nil).Status)
	s.set(t, storeValue, 0)
	meta := s.do(memd.OpGetMeta, nil)
	require.False(t, meta.Deleted)
	require.EqualValues(t, 42, meta.Flags)
	gone := s.do(memd.OpDelete, nil)
	meta = s.do(memd.OpGetMeta, nil)
	require.True(t, meta.Deleted)
	require.Equal(t, gone.CAS, meta.CAS)
	require.Equal(t, gone.Seqno, meta.Seqno)
	s.do(memd.OpAdd, nil)
	require.False(t, s.do(memd.OpGetMeta, nil).Deleted)
}

func TestStoreCASFollowsTheClockAndIsUnique(t *testing.T) {
	s := newStoreTest()
	last := uint64(0)
	for i := range 100 {
		if i == 50 {
			s.now = s.now.Add(-time.Hour) // a clock may be set back
		}
		c := s.set(t, storeValue, 0).CAS
		require.Greater(t, c, last)
		last = c
	}
	s.now = storeStart.Add(time.Minute)
	c := s.set(t, storeValue, 0).CAS
	require.InDelta(t, float64(s.now.UnixNano()), float64(c), 1<<16)
}

func TestStoreCollectionsAndVBucketsAreApart(t *testing.T) {
	s := &storeTest{New(2), storeStart}
	for vb := range 2 {
		s.Assign(vb, []int{vb})
	}
	in := func(vb uint16, cid uint32) func(*Op) {
		return func(o *Op) { o.VBucket, o.Collection, o.Node = vb, cid, int(vb) }
	}
	for vb := range uint16(2) {
		for _, cid := range []uint32{0, storeUser} {
			require.Equal(t, success, s.do(memd.OpAdd, in(vb, cid)).Status)
		}
	}
	require.Len(t, s.Documents(s.now), 4)
	s.DropCollection(storeUser)
	for vb := range uint16(2) {
		require.Equal(t, success, s.do(memd.OpGet, in(vb, 0)).Status)
		require.Equal(t, notFound, s.do(memd.OpGet, in(vb, storeUser)).Status)
		require.Equal(t, notFound, s.do(memd.OpGetMeta, in(vb, storeUser)).Status, "no tombstone either")
	}
	require.Equal(t, memd.StatusNotMyVBucket, s.do(memd.OpGet, func(o *Op) { o.VBucket, o.Node = 1, 0 }).Status)
}

func TestStoreApplyLog(t *testing.T) {
	s := newStoreTest()
	value := strings.Repeat("t", MaxToken) + "rest"
	s.do(memd.OpSet, func(o *Op) { o.Value = []byte(value) })
	require.Equal(t, value[:MaxToken], s.Log()[0].Token)
	s.Log()[0].Key = "changed"
	require.Equal(t, storeKey, s.Log()[0].Key, "a caller has a copy of its own")

	tokens := func() []string {
		var out []string
		for _, a := range s.Log() {
			out = append(out, a.Token)
		}
		return out
	}
	put := func(i int) { s.do(memd.OpSet, func(o *Op) { o.Value = fmt.Append(nil, i) }) }
	for i := range 10 {
		put(i)
	}
	s.Limit(3)
	require.Equal(t, []string{"7", "8", "9"}, tokens())
	for i := 10; i < 100; i++ {
		put(i)
		require.Equal(t, []string{fmt.Sprint(i - 2), fmt.Sprint(i - 1), fmt.Sprint(i)}, tokens())
		require.LessOrEqual(t, cap(s.applied), 12, "old entries are let go of")
	}
	s.Limit(0)
	put(100)
	put(101)
	require.Len(t, s.Log(), 5, "no limit any more")
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
		with := func(o *Op) { o.MaxTTL, o.Expiry = row.maxTTL, row.expiry }
		for _, op := range []memd.Opcode{memd.OpAdd, memd.OpSet, memd.OpReplace, memd.OpTouch, memd.OpGAT} {
			res := s.do(op, with)
			require.Equal(t, success, res.Status)
			want := int64(0)
			if row.want > 0 {
				want = s.now.Unix() + row.want
			}
			require.Equal(t, want, int64(res.Expiry), "%v %+v", op, row)
		}
	}
}

// The latest time that a document can have is 2106: a collection's limit that reaches beyond it does not wrap around.
func TestTheLifeOfADocumentEndsAtTheLatestTime_D206(t *testing.T) {
	s := newStoreTest()
	s.now = time.Date(2039, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, expiry := range []uint32{0, 60} {
		res := s.do(memd.OpSet, func(o *Op) { o.MaxTTL, o.Expiry = math.MaxInt32, expiry })
		want := uint32(math.MaxUint32)
		if expiry != 0 {
			want = uint32(s.now.Unix()) + expiry
		}
		require.Equal(t, want, res.Expiry)
	}
}
