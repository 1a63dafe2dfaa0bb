package field_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// A future can be printed while its call goes on, and a loop while the client is used. With a verb that does not suit a
// pointer fmt followed theirs into what the client was changing.
func TestAFutureIsPrintedByName_D214(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		c, _ := mocked(t, m)
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Drop())
		f := kv.Start(t.Context(), c.Bucket("default"), kv.Get{Key: []byte("secret-key")})
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
			require.Equal(t, "kv.Future", fmt.Sprintf(verb, f), verb)
			require.Contains(t, fmt.Sprintf(verb, c.Loop("l")), "retry.Orchestrator", verb)
		}
		f.Cancel()
	})
}
