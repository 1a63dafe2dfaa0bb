package call_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// docs/protocol.md has a row for every opcode that the client sends: those of the table of operations, and whatever
// else the packages that write requests name.
func TestEveryOpcodeThatIsSentHasItsRow(t *testing.T) {
	text, err := os.ReadFile("../../docs/protocol.md")
	require.NoError(t, err)
	rows := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok {
			for _, m := range regexp.MustCompile(`0x([0-9a-f]{2}) ([A-Z_]+)`).FindAllStringSubmatch(cell, -1) {
				op, err := strconv.ParseUint(m[1], 16, 8)
				require.NoError(t, err)
				rows[fmt.Sprintf("0x%02x %s", op, m[2])] = true
			}
		}
	}
	for op := range sentOpcodes(t) {
		require.True(t, rows[fmt.Sprintf("0x%02x %v", uint8(op), op)], "0x%02x %v", uint8(op), op)
	}
}

// sentOpcodes are the opcodes with a row in the table of operations, and those that the code of a connection names.
func sentOpcodes(t *testing.T) map[memd.Opcode]bool {
	t.Helper()
	sent := map[memd.Opcode]bool{}
	for op := range 256 {
		if call.SpecOf(memd.Opcode(op)) != nil {
			sent[memd.Opcode(op)] = true
		}
	}
	table, err := os.ReadFile("../../memd/opcode.go")
	require.NoError(t, err)
	numbers := map[string]memd.Opcode{}
	for _, m := range regexp.MustCompile(`(?m)^\tOp(\w+)\s+Opcode = 0x([0-9a-f]{2})$`).FindAllStringSubmatch(string(table), -1) {
		op, err := strconv.ParseUint(m[2], 16, 8)
		require.NoError(t, err)
		numbers[m[1]] = memd.Opcode(op)
	}
	require.Greater(t, len(numbers), 100)
	files, err := filepath.Glob("../conn/*.go")
	require.NoError(t, err)
	handshake, err := filepath.Glob("../handshake/*.go")
	require.NoError(t, err)
	files = append(files, handshake...)
	for _, name := range append(files, "login.go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`memd\.Op(\w+)`).FindAllStringSubmatch(string(source), -1) {
			if op, ok := numbers[m[1]]; ok {
				sent[op] = true
			}
		}
	}
	require.True(t, sent[memd.OpHello] && sent[memd.OpSASLStep] && sent[memd.OpSelectBucket])
	return sent
}

// It has a row for every status, which says what the client makes of it.
func TestEveryStatusHasItsRowInTheDocument_D132(t *testing.T) {
	text, err := os.ReadFile("../../docs/protocol.md")
	require.NoError(t, err)
	for st := range 1 << 16 {
		st := memd.Status(st)
		if !st.Known() {
			continue
		}
		row := fmt.Sprintf("\n| 0x%02x %v | %s | ", uint16(st), st, words(call.Classify(anyOpcode, st, false)))
		_, tail, ok := strings.Cut(string(text), row)
		require.True(t, ok, row)
		why, _, ok := strings.Cut(tail, " |\n")
		require.True(t, ok && why != "", row)
	}
}
