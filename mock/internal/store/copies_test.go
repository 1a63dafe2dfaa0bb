package store

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/couchcore/couchcore/memd"
)

func on(node int, key, value string) func(*Op) {
	return func(o *Op) { o.Node, o.Key, o.Value = node, []byte(key), []byte(value) }
}

func (s *storeTest) value(op memd.Opcode, node int, key string) string {
	res := s.do(op, on(node, key, ""))
	if res.Status != success {
		return res.Status.String()
	}
	return string(res.Value)
}

func TestStoreReplicasAreBehindByTheLag(t *testing.T) {
	s := newStoreTest()
	s.SetLag(10 * time.Millisecond)
	s.do(memd.OpSet, on(0, "a", "1"))
	require.Equal(t, "1", s.value(memd.OpGet, 0, "a"))
	require.Equal(t, notFound.String(), s.value(memd.OpGetReplica, 1, "a"))
	s.now = s.now.Add(10*time.Millisecond - 1)
	require.Equal(t, notFound.String(), s.value(memd.OpGetReplica, 1, "a"))
	s.now = s.now.Add(1)
	require.Equal(t, "1", s.value(memd.OpGetReplica, 1, "a"))

	s.do(memd.OpSet, on(0, "a", "2"))
	s.do(memd.OpSet, func(o *Op) {
		on(0, "b", "durable")(o)
		o.Durability = memd.DurabilityMajority
	})
	require.Equal(t, "durable", s.value(memd.OpGetReplica, 1, "b"))
	require.Equal(t, "2", s.value(memd.OpGetReplica, 1, "a"), "a durable write takes what is before it along")
	s.do(memd.OpSet, on(0, "a", "3"))
	require.Equal(t, "2", s.value(memd.OpGetReplica, 1, "a"))
	s.SetLag(0)
	require.Equal(t, "3", s.value(memd.OpGetReplica, 1, "a"))
}

func TestStoreFailoverLosesWhatNoReplicaHas(t *testing.T) {
	s := newStoreTest()
	s.Assign(0, []int{0, 1, 2})
	first, _ := s.History(0)
	s.SetLag(time.Second)
	s.do(memd.OpSet, on(0, "a", "old"))
	s.now = s.now.Add(time.Second)
	kept := s.do(memd.OpGet, on(0, "a", "")).Seqno
	s.do(memd.OpSet, on(0, "a", "lost"))
	s.do(memd.OpSet, on(0, "b", "lost"))

	s.Assign(0, []int{1, 2, -1})
	s.Fork(0)
	history, seqno := s.History(0)
	require.Equal(t, kept, seqno)
	require.Len(t, history, len(first)+1)
	require.NotEqual(t, first[0].UUID, history[0].UUID)
	require.Equal(t, kept, history[0].Begin, "what is newer was cut off")
	require.Equal(t, "old", s.value(memd.OpGet, 1, "a"))
	require.Equal(t, notFound.String(), s.value(memd.OpGet, 1, "b"))
	require.Equal(t, memd.StatusNotMyVBucket.String(), s.value(memd.OpGet, 0, "a"))
	s.now = s.now.Add(time.Hour)
	require.Equal(t, "old", s.value(memd.OpGetReplica, 2, "a"), "nothing comes back later")
	res := s.do(memd.OpSet, on(1, "a", "new"))
	require.Equal(t, kept+1, res.Seqno)
	require.Equal(t, history[0].UUID, res.UUID)
	require.Len(t, s.Log(), 4, "the log has what was executed, lost or not")
}

func TestStoreMovesLoseNothing(t *testing.T) {
	for name, row := range map[string][]int{
		"replica takes over":         {1, 0},
		"replica alone":              {1},
		"a new node":                 {2, 1},
		"a new node, a new replica":  {2, 3},
		"replica, and a new replica": {1, 2},
		"a new replica":              {0, 2},
	} {
		s := newStoreTest()
		s.SetLag(time.Hour)
		s.do(memd.OpSet, on(0, "a", "1"))
		uuid := s.vbs[0].history[0].UUID
		s.Assign(0, row)
		require.Equal(t, "1", s.value(memd.OpGet, row[0], "a"), name)
		require.Equal(t, uuid, s.vbs[0].history[0].UUID, name)
		if len(row) > 1 {
			require.Equal(t, "1", s.value(memd.OpGetReplica, row[1], "a"), name)
		}
		require.Len(t, s.vbs[0].copies, len(row), name)
	}
}

func TestStoreMoveAndThenFailover(t *testing.T) {
	s := newStoreTest()
	s.Assign(0, []int{0, 1, 2})
	s.SetLag(time.Hour)
	s.do(memd.OpSet, on(0, "a", "1"))
	s.Assign(0, []int{1, 0, 2}) // planned, and before anything else happens
	s.Assign(0, []int{0, 2, -1})
	s.Fork(0)
	require.Equal(t, "1", s.value(memd.OpGet, 0, "a"), "node 0 had it all the time")
	require.Equal(t, "1", s.value(memd.OpGetReplica, 2, "a"), "and the others become like it")
}

func TestStoreLastCopyLost(t *testing.T) {
	s := newStoreTest()
	s.SetLag(time.Hour)
	seqno := s.do(memd.OpSet, on(0, "a", "1")).Seqno
	s.Assign(0, []int{-1, -1})
	require.Empty(t, s.Documents(s.now))
	require.Equal(t, memd.StatusNotMyVBucket.String(), s.value(memd.OpGet, 0, "a"))
	s.Assign(0, []int{1, 0})
	require.Equal(t, notFound.String(), s.value(memd.OpGet, 1, "a"))
	s.Assign(0, []int{0, -1})
	s.Fork(0)
	s.Assign(0, []int{1, 0})
	require.Greater(t, s.do(memd.OpSet, on(1, "a", "2")).Seqno, seqno)
}

func TestStoreLocksStayOnTheirNode(t *testing.T) {
	s := newStoreTest()
	before := s.do(memd.OpSet, on(0, "a", "1")).CAS
	require.Equal(t, success, s.do(memd.OpGetLocked, on(0, "a", "")).Status)
	require.Equal(t, before, s.do(memd.OpGetReplica, on(1, "a", "")).CAS, "a replica knows no locks")
	s.Assign(0, []int{1, -1})
	s.Fork(0)
	require.Equal(t, success, s.do(memd.OpSet, on(1, "a", "2")).Status)
	require.Equal(t, success, s.do(memd.OpGetLocked, on(1, "a", "")).Status)
	s.Assign(0, []int{2, 1})
	require.Equal(t, success, s.do(memd.OpSet, on(2, "a", "3")).Status, "nor does a node that gets the vbucket")
}

func TestStoreFlush(t *testing.T) {
	s := newStoreTest()
	s.SetLag(time.Hour)
	s.do(memd.OpSet, on(0, "a", "1"))
	uuid := s.vbs[0].history[0].UUID
	s.Flush()
	require.Empty(t, s.Documents(s.now))
	require.Equal(t, notFound, s.do(memd.OpGetMeta, on(0, "a", "")).Status)
	history, seqno := s.History(0)
	require.Zero(t, seqno)
	require.Len(t, history, 1)
	require.NotEqual(t, uuid, history[0].UUID)
	s.now = s.now.Add(2 * time.Hour)
	require.Equal(t, notFound.String(), s.value(memd.OpGetReplica, 1, "a"), "nothing was on its way any more")
}

func TestStoreDropCollectionReachesWhatIsUnsent(t *testing.T) {
	s := newStoreTest()
	s.SetLag(time.Second)
	s.do(memd.OpSet, on(0, "a", "1"))
	s.DropCollection(storeUser)
	s.now = s.now.Add(time.Second)
	require.Equal(t, notFound.String(), s.value(memd.OpGetReplica, 1, "a"))
}

// TestStoreReplicationIsAPrefix compares the copies with a list of all writes: a replica has a prefix of it, and a
// failover cuts the list off there.
func TestStoreReplicationIsAPrefix(t *testing.T) {
	type write struct {
		key, value string
		at         time.Time
	}
	keys := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		const lag = 10 * time.Millisecond
		s := newStoreTest()
		s.SetLag(lag)
		active, replica := 0, 1
		var log []write
		have := 0 // of log, on the replica
		last := func(ws []write, key string) string {
			for _, w := range slices.Backward(ws) {
				if w.key == key {
					return w.value
				}
			}
			return notFound.String()
		}
		catchUp := func() {
			for have < len(log) && !s.now.Before(log[have].at.Add(lag)) {
				have++
			}
		}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			catchUp()
			switch rapid.SampledFrom([]string{"write", "write", "durable", "wait", "failover", "move"}).Draw(t,
				"step") {
			case "write":
				w := write{rapid.SampledFrom(keys).Draw(t, "key"), fmt.Sprint(i), s.now}
				require.Equal(t, success, s.do(memd.OpSet, on(active, w.key, w.value)).Status)
				log = append(log, w)
			case "durable":
				w := write{rapid.SampledFrom(keys).Draw(t, "key"), fmt.Sprint(i), s.now}
				require.Equal(t, success, s.do(memd.OpSet, func(o *Op) {
					on(active, w.key, w.value)(o)
					o.Durability = memd.DurabilityPersistToMajority
				}).Status)
				log = append(log, w)
				have = len(log)
			case "wait":
				s.now = s.now.Add(time.Duration(rapid.IntRange(1, 15).Draw(t, "ms")) * time.Millisecond)
				catchUp()
				s.vbs[0].deliver(s.now) // a replica does not wait for anyone to look
			case "failover":
				s.vbs[0].deliver(s.now)
				active, replica = replica, active
				s.Assign(0, []int{active, -1})
				s.Fork(0)
				log = log[:have]
				s.Assign(0, []int{active, replica}) // the node comes back
				have = len(log)
			case "move":
				active, replica = replica, active
				s.Assign(0, []int{active, replica})
				have = len(log)
			}
			for _, key := range keys {
				require.Equal(t, last(log, key), s.value(memd.OpGet, active, key), key)
				require.Equal(t, last(log[:have], key), s.value(memd.OpGetReplica, replica, key), key)
			}
			_, seqno := s.History(0)
			require.EqualValues(t, len(log), seqno)
		}
	})
}

// modelDoc is a document in the map that TestStoreAgreesWithAMap compares the store with.
type modelDoc struct {
	value   string
	cas     uint64
	expires int64
	lock    time.Time
	lockCAS uint64
}

// storeModel knows what a document store has to answer, in the plainest way.
type storeModel map[string]*modelDoc

func (m storeModel) find(key string, now time.Time) *modelDoc {
	d := m[key]
	if d != nil && d.expires != 0 && d.expires < now.Unix() {
		return nil
	}
	return d
}

// next says what an operation answers, and what the document is then; nil for none.
func (m storeModel) next(o *Op, now time.Time) (memd.Status, *modelDoc) {
	d := m.find(string(o.Key), now)
	if d == nil {
		switch {
		case o.Opcode == memd.OpAdd, o.Opcode == memd.OpSet && o.CAS == 0:
			return success, &modelDoc{value: string(o.Value), expires: int64(absolute(o.Expiry, now))}
		case o.Opcode == memd.OpIncrement:
			return success, &modelDoc{value: fmt.Sprint(o.Initial), expires: int64(absolute(o.Expiry, now))}
		case o.Opcode == memd.OpAppend:
			return notStored, nil
		}
		return notFound, nil
	}
	locked := d.lock.After(now)
	n, err := strconv.ParseUint(d.value, 10, 64)
	if o.Opcode == memd.OpIncrement && err != nil { // before it looks at a lock
		return memd.StatusDeltaBadVal, d
	}
	out := *d
	out.lock = time.Time{}
	switch {
	case o.Opcode == memd.OpAdd:
		return exists, d
	case o.Opcode == memd.OpGet:
		return success, d
	case o.Opcode == memd.OpGetLocked && !locked:
		out.lock = now.Add(time.Duration(o.Lock) * time.Second)
		return success, &out
	case o.Opcode == memd.OpUnlockKey && !locked:
		return notLocked, d
	case locked && o.CAS != d.lockCAS:
		return isLocked, d
	case o.Opcode == memd.OpUnlockKey:
		return success, &out
	case o.Opcode == memd.OpGetLocked:
		return isLocked, d
	case !locked && o.CAS != 0 && o.CAS != d.cas:
		return exists, d
	}
	switch o.Opcode {
	case memd.OpDelete:
		return success, nil
	case memd.OpTouch:
		out.expires = int64(absolute(o.Expiry, now))
	case memd.OpAppend:
		out.value += string(o.Value)
	case memd.OpIncrement:
		out.value = fmt.Sprint(n + o.Delta)
	default:
		out.value, out.expires = string(o.Value), int64(absolute(o.Expiry, now))
	}
	return success, &out
}

// TestStoreAgreesWithAMap runs random operations and compares every answer and the whole content.
func TestStoreAgreesWithAMap(t *testing.T) {
	ops := []memd.Opcode{
		memd.OpGet, memd.OpSet, memd.OpAdd, memd.OpReplace, memd.OpDelete, memd.OpAppend, memd.OpIncrement,
		memd.OpTouch,
		memd.OpGetLocked, memd.OpUnlockKey,
	}
	rapid.Check(t, func(t *rapid.T) {
		s, m := newStoreTest(), storeModel{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			s.now = s.now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
			o := Op{
				Opcode: rapid.SampledFrom(ops).Draw(t, "op"), Key: []byte(rapid.SampledFrom([]string{"a", "b"}).Draw(t,
					"key")),
				Value:  []byte(rapid.SampledFrom([]string{"7", "x", ""}).Draw(t, "value")),
				Expiry: rapid.Uint32Range(0, 3).Draw(t, "expiry"), Lock: rapid.Uint32Range(1, 3).Draw(t, "lock"),
				Delta: 1, Initial: 5,
			}
			// ADD, counters, TOUCH and reads take no CAS on the wire.
			if d := m[string(o.Key)]; d != nil && o.Opcode != memd.OpAdd && o.Opcode != memd.OpIncrement &&
				o.Opcode != memd.OpTouch && o.Opcode != memd.OpGetLocked {
				o.CAS = rapid.SampledFrom([]uint64{0, d.cas, d.lockCAS, 1}).Draw(t, "cas")
			}
			status, next := m.next(&o, s.now)
			res := s.Apply(&o, s.now)
			require.Equal(t, status, res.Status, "%v", o.Opcode)
			switch {
			case next == nil:
				delete(m, string(o.Key))
			case status == success && o.Opcode == memd.OpGetLocked:
				next.lockCAS = res.CAS
				m[string(o.Key)] = next
			case status == success && o.Opcode != memd.OpGet && o.Opcode != memd.OpUnlockKey:
				next.cas = res.CAS
				m[string(o.Key)] = next
			default:
				m[string(o.Key)] = next
			}
			want := map[string]string{}
			for key := range m {
				if d := m.find(key, s.now); d != nil {
					want[key] = fmt.Sprint(d.value, d.cas, d.lock.After(s.now))
				}
			}
			got := map[string]string{}
			for _, d := range s.Documents(s.now) {
				got[d.Key] = fmt.Sprint(string(d.Value), d.CAS, d.Locked)
			}
			require.True(t, maps.Equal(want, got), "%v: %v, want %v", o.Opcode, got, want)
		}
	})
}
