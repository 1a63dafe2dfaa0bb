package conn_test

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// judge has calls that the server refuses wait for their time, and fails those that do not exist.
type judge struct {
	ignores
	orc *retry.Orchestrator
}

func (j judge) Answered(_ *conn.Conn, c *call.Call, p *memd.Packet) {
	if p.Status == memd.StatusTmpFail {
		j.orc.MaybeRetry(c, retry.KVTemporaryFailure, errors.New("for the moment"), retry.Hint{})
	} else {
		c.Fail(errors.New("not found"))
	}
}

// A reader knows whether a caller that it told of an answer may have the next request, and yields only then.
func TestAReaderKnowsWhetherItWokeACaller(t *testing.T) {
	const ok, absent, busy = memd.StatusSuccess, memd.StatusKeyNotFound, memd.StatusTmpFail
	for name, c := range map[string]struct {
		answers []memd.Status // all in one read
		ignores bool
	}{
		"a document":             {[]memd.Status{ok}, false},
		"an error":               {[]memd.Status{absent}, false},
		"a call waits":           {[]memd.Status{busy}, true},
		"all calls wait":         {[]memd.Status{busy, busy, busy}, true},
		"all but one that fails": {[]memd.Status{busy, absent, busy}, false},
		"all but one":            {[]memd.Status{busy, busy, ok}, false},
		"all but the first":      {[]memd.Status{ok, busy, busy}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer far.Close()
				orc := retry.New(retry.Options{Default: retry.BestEffort{}})
				d := dispatcherOver(t, near, func(o *conn.Options) { o.Handler = judge{orc: orc} })
				for range c.answers {
					go func() { _, _ = kv.Do(t.Context(), d, kv.Upsert{Key: []byte("k")}) }()
				}
				var in, out []byte
				for n := 0; n < len(c.answers); {
					b := make([]byte, 4096)
					m, err := far.Read(b)
					require.NoError(t, err)
					in = append(in, b[:m]...)
					for {
						var p memd.Packet
						used, err := p.Parse(in, 0)
						if err != nil {
							break
						}
						in = in[used:]
						out, err = (&memd.Packet{
							Magic: memd.MagicRes, Opcode: p.Opcode, Opaque: p.Opaque,
							Status: c.answers[n], CAS: 7,
						}).AppendTo(out)
						require.NoError(t, err)
						n++
					}
				}
				_, err := far.Write(out)
				require.NoError(t, err)
				synctest.Wait()
				d.cn.Close(nil)
				synctest.Wait()
				require.Equal(t, c.ignores, d.cn.WokeNone())
				orc.Close(errors.New("over"))
			})
		})
	}
}

// roomFirst notes what it is told, and whether a call may be sent then.
type roomFirst struct {
	ignores
	told []string
}

func (r *roomFirst) Room(*conn.Conn) { r.told = append(r.told, "room") }

func (r *roomFirst) Answered(cn *conn.Conn, c *call.Call, _ *memd.Packet) {
	r.told = append(r.told, "refused")
	if cn.InFlight() == 0 {
		r.told = append(r.told, "free")
	}
	c.Done(errRefused, false)
}

// A refusal may bring a map, and calls of another node go on with it over this connection. What waits for room here
// gets it before that.
func TestARefusedAnswerGivesItsPlaceBackFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		h := &roomFirst{}
		d := dispatcherOver(t, near, func(o *conn.Options) { o.Handler, o.MaxInFlight = h, 1 })
		f := kv.Start(t.Context(), d, kv.Get{Key: []byte("wrong")})
		synctest.Wait()
		require.False(t, d.cn.WantRoom())
		var p peer
		go p.serve(far)
		_, err := f.Wait(t.Context())
		require.ErrorIs(t, err, errRefused)
		synctest.Wait()
		require.Equal(t, []string{"room", "refused", "free"}, h.told)
	})
}
