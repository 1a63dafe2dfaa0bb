package field_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
)

// Nothing that a client tells of itself has a password, in whatever form, nor a document's key or value, nor a
// statement's literal or parameter: the log at debug level, errors, spans, metrics, hooks, reports, diagnostics.
func TestNoSinkHasASecret_D157(t *testing.T) {
	const password, key, value = "pw-canary-1234", "key-canary-1234", "value-canary-1234"
	const literal = "literal-canary-1234"
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		var said strings.Builder
		j, h, rec := &journal{}, &hook{}, &keptMeters{seen: map[string]int{}, units: map[string]string{}}
		for _, pw := range []string{password, "not-" + password} { // a login that succeeds, and one that is refused
			cfg, err := core.ParseConnString(m.ConnString())
			require.NoError(t, err)
			traced := &spans{}
			cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = "canary", core.NewSecret(pw), m.Dial
			cfg.Observe.Log = slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
			cfg.Observe.TracerProvider, cfg.Observe.MeterProvider, cfg.Observe.Hook = traced, rec, h
			cfg.Observe.Thresholds.KV = time.Nanosecond
			c, err := core.Open(t.Context(), cfg)
			require.NoError(t, err)
			b := c.Bucket("default")
			tell := func(err error) {
				if err != nil {
					fmt.Fprintf(&said, "%v %+v\n", err, err)
				}
			}
			op := kv.Upsert{Key: []byte(key), Value: []byte(value), Common: kv.Common{Timeout: time.Second}}
			tell(second(kv.Do(t.Context(), b, op)))
			m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 3}, mock.Status(memd.StatusTmpFail))
			tell(second(kv.Do(t.Context(), b, op)))
			m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Delay(2*time.Second))
			tell(second(kv.Do(t.Context(), b, op)))
			tell(second(kv.GetAnyReplica(t.Context(), b, kv.GetReplica{Key: []byte(key), Common: op.Common})))
			tell(drain(c.Query(within(t, time.Second), &query.Request{Statement: "SELECT '" + literal + "'"})))
			tell(drain(c.Query(within(t, time.Second), &query.Request{
				Statement: "SELECT $1", Positional: []any{literal},
			})))
			time.Sleep(20 * time.Second)
			synctest.Wait()
			diagnostics, err := json.Marshal(c.Diagnostics())
			require.NoError(t, err)
			said.Write(diagnostics)
			require.NoError(t, c.Close())
			for _, s := range traced.all {
				fmt.Fprintln(&said, s.name, s.all)
			}
		}
		for i := range h.ended {
			fmt.Fprintf(&said, "%+v %+v\n", h.ended[i], h.how[i])
		}
		fmt.Fprintln(&said, rec.seen, rec.collect(t))
		all := said.String() + j.buf.String()
		require.Contains(t, all, "Operations over threshold")
		require.Contains(t, all, "dispatch_to_server")
		require.Contains(t, all, "Retrying")
		for _, secret := range []string{
			password, key, value, literal, hex.EncodeToString([]byte(password)),
			base64.StdEncoding.EncodeToString([]byte("canary:" + password)),
			base64.StdEncoding.EncodeToString([]byte("\x00canary\x00" + password)),
		} {
			require.NotContains(t, all, secret)
		}
	}, mock.User("canary", password))
}
