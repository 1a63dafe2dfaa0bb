package bench

import (
	"context"
	"errors"
)

var errSASLPlainOnly = errors.New("this client speaks no TLS")

type boundClient struct {
	b      *bound
	keys   [len(sizes)][][]byte
	values [len(sizes)][]byte
}

func openBound(t target) (client, error) {
	if t.tls {
		return nil, errSASLPlainOnly
	}
	b, err := newBound(t.addrs, t.mode)
	if err != nil {
		return nil, err
	}
	c := &boundClient{b: b}
	for class, size := range sizes {
		c.keys[class], c.values[class] = keys(class), value(size)
	}
	return c, nil
}

func (c *boundClient) work(j job, caller int) func() (int, error) {
	class := classOf(j.Size)
	r := newRotation(j, caller, c.keys[class])
	val := c.values[class]
	ctx := context.Background()
	if j.Op == opUpsert {
		return func() (int, error) {
			_, err := c.b.do(ctx, opUpsert, r.key(), val)
			return 1, err
		}
	}
	return func() (int, error) {
		v, err := c.b.do(ctx, opGet, r.key(), nil)
		if err == nil {
			err = checkLen(len(v), j.Size)
		}
		return 1, err
	}
}

func (c *boundClient) close() { c.b.close() }

type stepClient struct{ l *lockStep }

func openStep(t target) (client, error) {
	if t.tls {
		return nil, errSASLPlainOnly
	}
	l, err := newLockStep(t.addrs[0], t.mode)
	if err != nil {
		return nil, err
	}
	return stepClient{l}, nil
}

func (c stepClient) work(j job, _ int) func() (int, error) { return c.l.worker(j) }
func (c stepClient) close()                                { _ = c.l.nc.Close() }
