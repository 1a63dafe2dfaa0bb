package kv_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// lender is a dispatcher that takes a read without a call, always with the same memory for it and for the call that it may
// become; on does to the read what a server would have.
type lender struct {
	*fake
	reads *kv.Reads
	call  *kv.Call
	on    func(r *kv.Reads)
	wakes kv.Wakes
}

var _ kv.ReadsDispatcher = (*lender)(nil)

func newLender() *lender {
	l := &lender{fake: newFake(nil), reads: &kv.Reads{}, call: kv.NewCall()}
	l.reads.SetCollection(0)
	return l
}

func (l *lender) NewCall() *kv.Call                 { return l.call }
func (l *lender) Release(c *kv.Call)                { c.Reset() }
func (l *lender) NewCalls([]*kv.Call)               { panic("none is asked for") }
func (l *lender) ReleaseAll([]*kv.Call)             { panic("there are none") }
func (l *lender) DispatchAll([]*kv.Call)            { panic("there are none") }
func (l *lender) NewReads() *kv.Reads               { return l.reads }
func (l *lender) ReleaseReads(*kv.Reads)            {}
func (l *lender) DispatchReads(r *kv.Reads)         { l.on(r) }
func (l *lender) AdmitRead(c *kv.Call, _ *kv.Reads) { c.Bind(&l.home) }

// wins answers a read well.
func (l *lender) wins(t *testing.T, p memd.Packet, owned bool) func(*kv.Reads) {
	return func(r *kv.Reads) {
		require.True(t, r.Alone())
		require.Equal(t, 1, r.Len())
		require.True(t, r.Win(0, &p, owned, fakeVia, &l.wakes))
		l.wakes.Flush()
	}
}

// A read that goes without a call has the outcome of one with a call, whatever the one before it was, and leaves nothing behind.
func TestAReadThatIsAlone(t *testing.T) {
	l, bg := newLender(), context.Background()
	flags := []byte{1, 2, 3, 4}
	answers := []struct {
		p     memd.Packet
		owned bool
	}{
		{p: memd.Packet{Opcode: memd.OpGet, CAS: 5, Extras: flags, Value: []byte("value"), Datatype: memd.DatatypeJSON}},
		{p: memd.Packet{Opcode: memd.OpGet, CAS: 6, Extras: []byte{0, 0, 0, 0}}},
		{p: memd.Packet{Opcode: memd.OpGet, CAS: 7, Extras: flags, Value: []byte("other")}, owned: true},
		{p: memd.Packet{Opcode: memd.OpGet, CAS: 8, Extras: flags, Value: []byte("timed"), Frames: []byte{0x02, 0x00, 0x07}}},
	}
	contexts := []context.Context{bg, t.Context()}
	for round := range 3 {
		for i := range answers {
			a := answers[(i*round+i)%len(answers)]
			for _, in := range []kv.Common{{}, {Scope: "s", Collection: "c"}} {
				l.on = l.wins(t, a.p, a.owned)
				if in.Scope != "" {
					win := l.on
					l.on = func(r *kv.Reads) {
						r.SetCollection(0x1234)
						win(r)
					}
				}
				got, err := kv.Do(contexts[round%2], l, kv.Get{Common: in, Key: []byte("k")})
				require.NoError(t, err)
				want, err := kv.Do(bg, answering(a.p), kv.Get{Key: []byte("k")})
				require.NoError(t, err)
				require.Equal(t, want, got)
				if a.owned {
					require.Same(t, &a.p.Value[0], &got.Value[0])
				}
				require.Empty(t, kv.ReadsLeftovers(l.reads))
				require.Equal(t, memd.HeaderLen+1, l.reads.BeforeKey(&kv.Wire{Features: allFeatures}))

				l.on = func(r *kv.Reads) { // this one becomes a call, which is refused
					c := r.Call(0, true)
					c.Carry(&kv.Wire{Opaque: 9, Via: fakeVia}, 0)
					c.State.Sent()
					c.Refuse(c.StatusError(&memd.Packet{Opcode: memd.OpGet, Status: memd.StatusKeyNotFound}, kv.Classify(memd.OpGet, memd.StatusKeyNotFound, false)))
				}
				got, err = kv.Do(contexts[round%2], l, kv.Get{Common: in, Key: []byte("k")})
				require.ErrorIs(t, err, cberr.DocumentNotFound)
				require.Zero(t, got)
				require.Empty(t, kv.ReadsLeftovers(l.reads))
				require.False(t, kv.SharesWake(l.call, l.reads), "the call has its own back")
			}
		}
	}
	buf := make([]byte, 1, 10)
	l.on = l.wins(t, answers[0].p, false)
	got, err := kv.Do(bg, l, kv.Get{Key: []byte("k"), Into: buf})
	require.NoError(t, err)
	require.Same(t, &buf[0], &got.Value[0])
	require.Equal(t, "value", string(got.Value[1:]))
	require.Empty(t, kv.ReadsLeftovers(l.reads))
}
