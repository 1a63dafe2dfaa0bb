package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var errPlanted = errors.New("planted")

// memory is a client that remembers everything already; one that is broken fails each time.
type memory struct {
	broken bool
	closed bool
}

func remembered() Extra {
	return Extra{Name: "memory", About: "no server at all", Open: func([]string, string) (Documents, error) { return &memory{}, nil }}
}

func (m *memory) Get(key string) ([]byte, error) {
	if m.broken {
		return nil, errPlanted
	}
	return value(sizes[key[0]-'0']), nil
}

func (m *memory) Upsert(key string, val []byte) error {
	if m.broken || len(val) != sizes[key[0]-'0'] {
		return errPlanted
	}
	return nil
}

func (m *memory) Close() error {
	m.closed = true
	return nil
}

// TestAClientOfAnotherModule is measured in a process of its own, beside the others, and explained.
func TestAClientOfAnotherModule(t *testing.T) {
	var out, progress bytes.Buffer
	const name = "get 256 B, 16 workers"
	args := []string{"--json", "--quick", "--rounds", "1", "--gate-rounds", "1", "--slice", "20ms", "--only", "^" + name + "$"}
	kinds := extraKinds([]Extra{remembered()})
	require.NoError(t, run(t.Context(), args, &out, &progress, kinds...), progress.String())
	var rep report
	require.NoError(t, json.Unmarshal(out.Bytes(), &rep))
	require.Len(t, rep.Cells, 1)
	require.Empty(t, rep.Cells[0].Error)
	at := slices.IndexFunc(rep.Cells[0].Rows, func(r rowReport) bool { return r.Client == "memory" })
	require.Equal(t, lanesOf(name), at, "it comes last")
	require.Positive(t, rep.Cells[0].Rows[at].PerSecond)
	require.Contains(t, newReport(newResults(), conditions{}, kinds...).markdown(""), "| memory | no server at all |")
	require.NotContains(t, newReport(newResults(), conditions{}).markdown(""), "memory |")
}

// TestWhatAClientOfAnotherModuleDoes visits the keys as the others do, checks what comes back, and tells what fails.
func TestWhatAClientOfAnotherModuleDoes(t *testing.T) {
	m := &memory{}
	f := newForeign(m)
	for _, op := range []operation{opGet, opUpsert} {
		for _, size := range sizes {
			n, err := f.work(job{Op: op, Workers: 2, Size: size}, 1)()
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		m.broken = true
		_, err := f.work(job{Op: op, Workers: 1, Size: 16}, 0)()
		require.ErrorIs(t, err, errPlanted)
		m.broken = false
	}
	f.keys[0][0] = f.keys[1][0] // a document of another length
	_, err := f.work(job{Op: opGet, Workers: 1, Size: 16}, 0)()
	require.EqualError(t, err, "value of 256 bytes, want 16")
	f.close()
	require.True(t, m.closed)
	broken := Extra{Name: "broken", Open: func([]string, string) (Documents, error) { return nil, errPlanted }}
	_, err = extraKinds([]Extra{broken})[0].open(target{})
	require.ErrorIs(t, err, errPlanted)
}
