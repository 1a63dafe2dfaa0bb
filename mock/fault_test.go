package mock_test

import (
	"context"
	"encoding/binary"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func TestFaultsThatAnswer(t *testing.T) {
	rows := []struct {
		name    string
		fault   mock.Fault
		status  memd.Status
		applied int
		check   func(*testing.T, *mock.Cluster, memd.Packet)
	}{
		{"status", mock.Status(memd.StatusTmpFail), memd.StatusTmpFail, 0, nil},
		{"status after", mock.StatusAfter(memd.StatusTmpFail), memd.StatusTmpFail, 1, nil},
		{"unknown status", mock.Status(0x7ff0), 0x7ff0, 0, nil},
		{
			"error body", mock.ErrorBody(memd.StatusLocked, []byte(`{"error":{"ref":"r"}}`)), memd.StatusLocked, 0,
			func(t *testing.T, _ *mock.Cluster, p memd.Packet) {
				require.Equal(t, memd.DatatypeJSON, p.Datatype)
				require.Equal(t, `{"error":{"ref":"r"}}`, string(p.Value))
			},
		},
		{
			"reply", mock.Reply(func(req, rep *memd.Packet) { rep.CAS, rep.Value = 7, req.Key }), memd.StatusSuccess, 0,
			func(t *testing.T, _ *mock.Cluster, p memd.Packet) {
				require.EqualValues(t, 7, p.CAS)
				require.Equal(t, docKey("k"), p.Value)
			},
		},
		{
			"rewrite", mock.Rewrite(func(_, rep *memd.Packet) { rep.CAS = 9 }), memd.StatusSuccess, 1,
			func(t *testing.T, _ *mock.Cluster, p memd.Packet) { require.EqualValues(t, 9, p.CAS) },
		},
		{
			"lose write", mock.LoseWrite(), memd.StatusSuccess, 0,
			func(t *testing.T, _ *mock.Cluster, p memd.Packet) {
				require.NotZero(t, p.CAS)
				require.Len(t, p.Extras, 16)
			},
		},
		{
			"nmvb", mock.NotMyVBucket(true, nil), memd.StatusNotMyVBucket, 0,
			func(t *testing.T, c *mock.Cluster, p memd.Packet) {
				require.Equal(t, c.ConfigJSON("default"), p.Value)
			},
		},
		{
			"nmvb with a body of its own", mock.NotMyVBucket(true, []byte("{}")), memd.StatusNotMyVBucket, 0,
			func(t *testing.T, _ *mock.Cluster, p memd.Packet) { require.Equal(t, "{}", string(p.Value)) },
		},
		{
			"nmvb without body", mock.NotMyVBucket(false, nil), memd.StatusNotMyVBucket, 0,
			func(t *testing.T, _ *mock.Cluster, p memd.Packet) { require.Empty(t, p.Value) },
		},
		{"none", mock.Fault{}, memd.StatusSuccess, 1, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			c := mock.Start(t)
			r := login(t, c, baseFeatures...)
			in := c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, row.fault)
			p := r.call(storePacket(memd.OpSet, "k", "v"))
			require.Equal(t, row.status, p.Status)
			require.Len(t, c.ApplyLog("default"), row.applied)
			require.Equal(t, 1, in.Fired())
			if row.check != nil {
				row.check(t, c, p)
			}
			require.Equal(t, memd.StatusSuccess, r.call(storePacket(memd.OpSet, "k", "v")).Status, "fires once only")
			require.Equal(t, 1, in.Fired())
		})
	}
}

func TestFaultsThatEndTheConnection(t *testing.T) {
	rows := []struct {
		name    string
		fault   mock.Fault
		bytes   int
		applied int
	}{
		{"close before", mock.CloseBefore(), 0, 0},
		{"reset before", mock.ResetBefore(), 0, 0},
		{"close after", mock.CloseAfter(), 0, 1},
		{"truncate in the header", mock.Truncate(10), 10, 1},
		{"truncate in the body", mock.Truncate(30), 30, 1},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			c := mock.Start(t)
			r := login(t, c, baseFeatures...)
			in := c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, row.fault)
			r.send(storePacket(memd.OpSet, "k", "v"))
			for range row.bytes {
				_, err := r.nc.Read(make([]byte, 1))
				require.NoError(t, err)
			}
			r.closed()
			require.Len(t, c.ApplyLog("default"), row.applied)
			require.Equal(t, 1, in.Fired())
		})
	}
}

// A reset is one for the client too, over real sockets as on the network in memory.
func TestAResetIsSeenAsOne(t *testing.T) {
	reset := func(t *testing.T, opts ...mock.Option) {
		c := mock.Start(t, opts...)
		r := login(t, c, baseFeatures...)
		c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.ResetBefore())
		r.send(storePacket(memd.OpSet, "k", "v"))
		_, err := r.nc.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Empty(t, c.ApplyLog("default"))
	}
	t.Run("real", func(t *testing.T) { reset(t) })
	t.Run("in memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { reset(t, mock.Virtual()) })
	})
}

func TestFaultsThatCorrupt(t *testing.T) {
	rows := []struct {
		name  string
		fault mock.Fault
		want  error
	}{
		{"magic", mock.CorruptMagic(), memd.ErrMagic},
		{"length", mock.CorruptLength(), memd.ErrTooLarge},
		{"parts", mock.CorruptParts(), memd.ErrLengths},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			c := mock.Start(t)
			r := login(t, c, baseFeatures...)
			in := c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, row.fault)
			r.send(getPacket("k"))
			_, err := r.read()
			require.ErrorIs(t, err, row.want)
			require.Equal(t, 1, in.Fired())
		})
	}
	t.Run("opaque", func(t *testing.T) {
		c := mock.Start(t)
		r := login(t, c, baseFeatures...)
		c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.CorruptOpaque())
		r.send(getPacket("k"))
		r.next(memd.OpGet, ^r.opaque)
	})
	t.Run("twice", func(t *testing.T) {
		c := mock.Start(t)
		r := login(t, c, baseFeatures...)
		c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Twice())
		r.send(getPacket("k"))
		r.next(memd.OpGet, r.opaque)
		r.next(memd.OpGet, r.opaque)
	})
}

func TestFaultsThatKeepSilent(t *testing.T) {
	for name, row := range map[string]struct {
		fault   mock.Fault
		applied int
	}{"drop": {mock.Drop(), 0}, "drop reply": {mock.DropReply(), 1}} {
		t.Run(name, func(t *testing.T) {
			c := mock.Start(t)
			r := login(t, c, baseFeatures...)
			in := c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, row.fault)
			r.send(storePacket(memd.OpSet, "k", "v"))
			r.silent()
			require.Len(t, c.ApplyLog("default"), row.applied)
			require.Equal(t, 1, in.Fired())
		})
	}
}

func TestHoldKeepsTheRequestUntilRelease(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, append(baseFeatures, memd.FeatureUnorderedExecution)...)
	in := c.Inject(mock.Match{Key: []byte("held")}, mock.Hold())
	r.send(storePacket(memd.OpSet, "held", "v"), storePacket(memd.OpSet, "free", "v"))
	r.next(memd.OpSet, r.opaque) // overtakes, because the client allows it
	require.Len(t, c.ApplyLog("default"), 1)
	in.Release()
	r.next(memd.OpSet, r.opaque-1)
	require.Len(t, c.ApplyLog("default"), 2)
}

func TestHoldReplyKeepsTheAnswerOnly(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, baseFeatures...)
	in := c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.HoldReply())
	r.send(storePacket(memd.OpSet, "a", "v"), storePacket(memd.OpSet, "b", "v"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, in.WaitFired(ctx, 1))
	in.Release()
	r.next(memd.OpSet, r.opaque-1) // in order, because the client has not allowed anything else
	r.next(memd.OpSet, r.opaque)
}

func TestDelaysTakeTheirTime(t *testing.T) {
	for name, row := range map[string]struct {
		fault  mock.Fault
		before int // applied before the delay is over
	}{"delay": {mock.Delay(2 * time.Second), 0}, "delay reply": {mock.DelayReply(2 * time.Second), 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := mock.Start(t, mock.Virtual())
				r := login(t, c, baseFeatures...)
				c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, row.fault)
				begin := time.Now()
				r.send(storePacket(memd.OpSet, "k", "v"))
				synctest.Wait()
				require.Len(t, c.ApplyLog("default"), row.before)
				p := r.next(memd.OpSet, r.opaque)
				require.Equal(t, 2*time.Second, time.Since(begin))
				require.InDelta(t, 2e6, memd.DecodeServerDuration(duration(t, p)), 2e4)
			})
		})
	}
}

func TestMatchFields(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Replicas(0),
		mock.Bucket("default", 2, mock.WithCollection("s", "c")), mock.Bucket("other", 2))
	r := login(t, c, baseFeatures...)
	hits := func(m mock.Match, p memd.Packet) bool {
		t.Helper()
		in := c.Inject(m, mock.Status(memd.StatusBusy))
		defer in.Remove()
		hit := r.call(p).Status == memd.StatusBusy
		require.Equal(t, hit, in.Fired() == 1)
		return hit
	}
	get := getPacket("k")
	named := memd.Packet{Opcode: memd.OpGet, Key: append([]byte{8}, "k"...)}
	require.True(t, hits(mock.Match{}, get))
	require.True(t, hits(mock.Match{Nodes: []int{0}}, get))
	require.False(t, hits(mock.Match{Nodes: []int{1}}, get))
	require.True(t, hits(mock.Match{Opcodes: []memd.Opcode{memd.OpSet, memd.OpGet}}, get))
	require.False(t, hits(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, get))
	require.True(t, hits(mock.Match{Key: []byte("k")}, get))
	require.False(t, hits(mock.Match{Key: []byte("x")}, get))
	require.True(t, hits(mock.Match{Bucket: "default"}, get))
	require.False(t, hits(mock.Match{Bucket: "other"}, get))
	require.True(t, hits(mock.Match{Collection: "s.c"}, named))
	require.False(t, hits(mock.Match{Collection: "s.c"}, get))
	require.True(t, hits(mock.Match{Collection: "_default._default"}, get))
	require.True(t, hits(mock.Match{Func: func(p *memd.Packet) bool { return p.VBucket == 0 }}, get))
	require.False(t, hits(mock.Match{Func: func(p *memd.Packet) bool { return p.VBucket == 1 }}, get))

	in := c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Skip: 1, Times: 2}, mock.Status(memd.StatusBusy))
	var got []memd.Status
	for range 4 {
		got = append(got, r.call(get).Status)
	}
	missing := memd.StatusKeyNotFound
	require.Equal(t, []memd.Status{missing, memd.StatusBusy, memd.StatusBusy, missing}, got)
	require.Equal(t, 2, in.Fired())
}

func TestServerDurationIsNeverZero(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, baseFeatures...)
	for range 50 {
		require.NotZero(t, duration(t, r.call(memd.Packet{Opcode: memd.OpNoop})))
	}
	require.NotZero(t, duration(t, r.call(getPacket("missing"))), "failures too")
}

func TestCloseReleasesWhatFaultsHold(t *testing.T) {
	c, err := mock.New()
	require.NoError(t, err)
	r := login(t, c, baseFeatures...)
	in := c.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.Hold())
	r.send(storePacket(memd.OpSet, "k", "v"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, in.WaitFired(ctx, 1))
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	r.closed()
	require.Empty(t, c.ApplyLog("default"))
}

func TestCounterExtras(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, baseFeatures...)
	x := binary.BigEndian.AppendUint64(nil, 5)
	x = binary.BigEndian.AppendUint64(x, 40)
	x = append(x, 0, 0, 0, 0)
	inc := memd.Packet{Opcode: memd.OpIncrement, Key: docKey("n"), Extras: x}
	require.EqualValues(t, 40, binary.BigEndian.Uint64(r.call(inc).Value))
	p := r.call(inc)
	require.EqualValues(t, 45, binary.BigEndian.Uint64(p.Value))
	require.Len(t, p.Extras, 16)
	inc.Opcode = memd.OpDecrement
	require.EqualValues(t, 40, binary.BigEndian.Uint64(r.call(inc).Value))
}
