package sim

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"strings"

	"github.com/couchcore/couchcore/cberr"
)

// A service packs an answer that was asked for as it is. Unpacked it is a good answer of every service: rows, and
// behind them 100 MiB of nothing. The client must refuse it as it comes: a request that is given rows of it, or that
// succeeds, has had it unpacked (P12). That nothing is allocated for it is a test of internal/httpx, because a run
// cannot tell the client's memory from the nodes'.

// packedAnswer is the name of the execution.
const packedAnswer = "48f gzip bomb, unasked"

// refusedPacked is what a large set of seeds comes to.
const refusedPacked = "a packed answer was refused"

// bombSize is how many bytes it has, unpacked, beside its rows. The runs' limit of a row is a hundredth of that.
const bombSize = 100 << 20

// newBomb packs it: gzip allows an answer of many parts, so one of them is enough to be made.
func newBomb() []byte {
	var b bytes.Buffer
	pack := func(clear []byte) {
		z := gzip.NewWriter(&b)
		_, _ = z.Write(clear) // a buffer takes everything
		_ = z.Close()
	}
	const part = 1 << 20
	all := "[" + strings.Join(rows(5), ",") + "]"
	pack(fmt.Appendf(nil, `{"results":%[1]s,"hits":%[1]s,"rows":%[1]s`, all))
	begin := b.Len()
	pack(bytes.Repeat([]byte{' '}, part))
	space := bytes.Clone(b.Bytes()[begin:])
	b.Write(bytes.Repeat(space, bombSize/part-1))
	pack([]byte("}"))
	return b.Bytes()
}

// checkPacked judges a request whose last answer was packed.
func (w *world) checkPacked(a *asking, what fmt.Stringer) {
	switch {
	case !w.packed[a.token]:
	case a.err == nil || a.got > 0:
		w.report.violate("P12", "%s: its answer was packed, and the client has unpacked it", what)
	case errors.Is(a.err, cberr.DecodingFailure):
		w.report.Reached[refusedPacked]++
	}
}
