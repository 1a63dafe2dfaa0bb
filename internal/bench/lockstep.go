package bench

import (
	"encoding/binary"
	"fmt"
	"net"

	"github.com/couchcore/couchcore/memd"
)

// lockStep is what the round trip is measured with: one goroutine writes as many prepared requests as there are
// callers, reads their answers, and repeats.
type lockStep struct {
	nc   *net.TCPConn
	in   []byte
	have int // bytes of in that have not been looked at yet
}

// worker gives one round of n operations.
func (l *lockStep) worker(j job) func() (int, error) {
	n := j.Callers
	out := prepared(j, n)
	return func() (int, error) {
		if _, err := l.nc.Write(out); err != nil {
			return 0, err
		}
		if err := l.answers(n); err != nil {
			return 0, err
		}
		return n, nil
	}
}

// answers reads n answers and looks at their headers.
func (l *lockStep) answers(n int) error {
	for skip := 0; n > 0 || skip > 0; { // skip: what is left of the body of the last header
		switch {
		case skip > 0 && l.have > 0:
			k := min(skip, l.have)
			l.have = copy(l.in, l.in[k:l.have])
			skip -= k
		case skip == 0 && l.have >= memd.HeaderLen:
			used, done, left, err := walk(l.in[:l.have], n)
			if err != nil {
				return err
			}
			n -= done
			skip = left
			l.have = copy(l.in, l.in[used:l.have])
		default:
			m, err := l.nc.Read(l.in[l.have:])
			if err != nil {
				return err
			}
			l.have += m
		}
	}
	return nil
}

// walk takes headers and bodies off in, at most n. left is what the last body still lacks.
func walk(in []byte, n int) (used, done, left int, err error) {
	for done < n && len(in)-used >= memd.HeaderLen {
		b := in[used:]
		if b[0] != byte(memd.MagicRes) || binary.BigEndian.Uint16(b[6:]) != uint16(memd.StatusSuccess) {
			return used, done, 0, fmt.Errorf("magic %#x, status %#x: %w", b[0], binary.BigEndian.Uint16(b[6:]),
				errOutOfStep)
		}
		size := memd.HeaderLen + int(binary.BigEndian.Uint32(b[8:]))
		done++
		if size > len(b) {
			return len(in), done, size - len(b), nil
		}
		used += size
	}
	return used, done, 0, nil
}

// prepared are the requests of n operations, one after the other.
func prepared(j job, n int) []byte {
	class := classOf(j.Size)
	ks, val := keys(class), value(j.Size)
	var out []byte
	for i := range n {
		k := ks[i%len(ks)]
		out = appendRequest(out, j.Op, k, val, vbucketOf(k), uint32(i))
	}
	return out
}

func newLockStep(addr string, m mode) (*lockStep, error) {
	nc, err := dialRaw(addr, string(m))
	if err != nil {
		return nil, err
	}
	return &lockStep{nc: nc, in: make([]byte, readSize)}, nil
}
