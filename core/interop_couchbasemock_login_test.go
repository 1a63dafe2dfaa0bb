package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/testkit"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// TestCouchbaseMockMechanisms restricts what the server offers. PLAIN is spoken on an open line only when allowed.
func TestCouchbaseMockMechanisms(t *testing.T) {
	testkit.CouchbaseMock(t, testkit.MockOptions{Buckets: []string{"default:secret"}},
		func(t *testing.T, m *testkit.CouchbaseMockServer) {
			connect := func(allowPlain bool) (*core.Bucket, error) {
				c, err := core.Open(t.Context(), core.Config{
					Seeds: core.SeedConfig{Hosts: m.Addresses("default")},
					Auth: core.AuthConfig{
						Username: "default", Password: core.NewSecret("secret"),
						AllowPlain: allowPlain,
					},
				})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, c.Close()) })
				b := c.Bucket("default")
				_, err = kv.Do(longer(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
				return b, err
			}
			offer := func(names ...string) { m.Command("SET_SASL_MECHANISMS", map[string]any{"mechs": names}) }
			for _, name := range []string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1"} {
				offer("PLAIN", name)
				b, err := connect(true)
				require.NoError(t, err, name)
				require.NoError(t, b.WaitReady(longer(t)))
				for _, s := range b.Status() {
					require.Equal(t, name, s.Mechanism)
				}
			}
			offer("PLAIN")
			b, err := connect(true)
			require.NoError(t, err)
			require.NoError(t, b.WaitReady(longer(t)))
			require.Equal(t, "PLAIN", b.Status()[0].Mechanism)
			_, err = connect(false)
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			require.ErrorContains(t, err, "no common authentication mechanism")
			require.NotContains(t, err.Error(), "secret")
		})
}

// TestCouchbaseMockHandshakeTrouble fails steps of the handshake with what may pass: connecting is tried again.
func TestCouchbaseMockHandshakeTrouble(t *testing.T) {
	testkit.CouchbaseMock(t, testkit.MockOptions{Buckets: []string{"default:secret"}},
		func(t *testing.T, m *testkit.CouchbaseMockServer) {
			for _, op := range []memd.Opcode{
				memd.OpHello, memd.OpGetErrorMap, memd.OpSASLListMechs, memd.OpSASLAuth, memd.OpSASLStep,
				memd.OpSelectBucket, memd.OpGetClusterConfig,
			} {
				opfail(m, memd.StatusTmpFail, op, 2)
				b := openCouchbaseMock(t, m, "secret").Bucket("default")
				_, err := kv.Do(longer(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
				require.NoError(t, err, "%v", op)
				require.NoError(t, b.WaitReady(longer(t)), "%v", op)
				opfail(m, 0, op, 0)
			}
		})
}

// TestCouchbaseMockWrongPasswordIsWaitedForWhenAsked is the other strategy's side of a refused login.
func TestCouchbaseMockWrongPasswordIsWaitedForWhenAsked(t *testing.T) {
	testkit.CouchbaseMock(t, testkit.MockOptions{Buckets: []string{"default:secret"}},
		func(t *testing.T, m *testkit.CouchbaseMockServer) {
			b := openCouchbaseMock(t, m, "guessed").Bucket("default")
			_, err := kv.Do(longer(t), b, kv.Get{Key: []byte("k"), Common: kv.Common{
				Timeout: time.Second,
				Retry:   retry.BestEffort{},
			}})
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			require.ErrorIs(t, err, cberr.AuthenticationFailure)
			for _, s := range b.Status() {
				require.False(t, s.Connected)
			}
			require.ErrorIs(t, b.WaitReady(longer(t)), cberr.AuthenticationFailure)
		})
}
