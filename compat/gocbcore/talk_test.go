package gocbcore_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// talk is a program that answers lines with lines. It ends with its input, at the end of the test.
type talk struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

func talkTo(t *testing.T, name string, args ...string) *talk {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	k := &talk{in: in, out: bufio.NewScanner(out)}
	k.out.Buffer(nil, 1<<20)
	return k
}

func (k *talk) line(t *testing.T) string {
	t.Helper()
	require.True(t, k.out.Scan())
	return k.out.Text()
}

// end closes the program's input.
func (k *talk) end(t *testing.T) {
	t.Helper()
	require.NoError(t, k.in.Close())
}
