package bench

import "context"

type boundClient struct {
	b      *bound
	keys   [len(sizes)][][]byte
	values [len(sizes)][]byte
}

func boundOpener(taxed bool) func(target) (client, error) {
	return func(t target) (client, error) {
		b, err := newBound(t.addrs, t.mode, taxed)
		if err != nil {
			return nil, err
		}
		c := &boundClient{b: b}
		for class, size := range sizes {
			c.keys[class], c.values[class] = keys(class), value(size)
		}
		return c, nil
	}
}

func (c *boundClient) work(j job, worker int) func() (int, error) {
	class := classOf(j.Size)
	r := newRotation(j, worker, c.keys[class])
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
	l, err := newLockStep(t.addrs[0], t.mode)
	if err != nil {
		return nil, err
	}
	return stepClient{l}, nil
}

func (c stepClient) work(j job, _ int) func() (int, error) { return c.l.worker(j) }
func (c stepClient) close()                                { _ = c.l.nc.Close() }

type wireClient struct{ s *stream }

func openWire(t target) (client, error) {
	l, err := newLockStep(t.addrs[0], t.mode)
	if err != nil {
		return nil, err
	}
	return wireClient{&stream{nc: l.nc, l: l}}, nil
}

func (c wireClient) work(j job, _ int) func() (int, error) { return c.s.worker(j) }
func (c wireClient) drain(j job) error                     { return c.s.drain(j) }
func (c wireClient) close()                                { _ = c.s.nc.Close() }
