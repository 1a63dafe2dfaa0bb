package bench

import (
	"net"
	"sync"
	"time"
)

// beat is how often the host application's ticker ticks and its echo is asked.
const beat = time.Millisecond

// lateness is how late what has nothing to do with the client is: a ticker after its time, an echo after it was asked
// for.
type lateness struct{ ticker, echo histogram }

// beside starts what else the process does during a slice: goroutines that compute, and the host application. stop
// waits for the latter; all of them end with the slice.
func beside(j job, c *clock) (stop func(), late *lateness, err error) {
	late = &lateness{}
	var wg sync.WaitGroup
	if j.Host {
		near, far, err := socketPair()
		if err != nil {
			return nil, nil, err
		}
		wg.Go(func() { tickOften(c, &late.ticker) })
		wg.Go(func() { answer16(far) })
		wg.Go(func() {
			askOften(near, c, &late.echo)
			_ = near.Close() // which ends the other side
		})
	}
	for range j.Busy {
		wg.Go(func() { busy(c) })
	}
	return func() {
		c.phase.Store(over)
		wg.Wait()
	}, late, nil
}

// tickOften measures how late a sleep of a millisecond wakes. Beats that were slept through are left out.
func tickOften(c *clock, late *histogram) {
	for next := c.now() + beat; ; {
		time.Sleep(next - c.now())
		now := c.now()
		switch c.phase.Load() {
		case over:
			return
		case measuring:
			late.add(int64(now - next))
		}
		for next += beat; next <= now; next += beat {
			continue
		}
	}
}

// askOften measures how long an echo over a socket takes.
func askOften(nc net.Conn, c *clock, took *histogram) {
	var b [16]byte
	for next := c.now() + beat; ; {
		time.Sleep(next - c.now())
		began := c.now()
		if _, err := nc.Write(b[:]); err != nil {
			return
		}
		if _, err := nc.Read(b[:]); err != nil {
			return
		}
		now := c.now()
		switch c.phase.Load() {
		case over:
			return
		case measuring:
			took.add(int64(now - began))
		}
		for next += beat; next <= now; next += beat {
			continue
		}
	}
}

// answer16 gives back what it gets until the other side has closed.
func answer16(nc net.Conn) {
	defer nc.Close()
	var b [16]byte
	for {
		n, err := nc.Read(b[:])
		if err != nil {
			return
		}
		if _, err := nc.Write(b[:n]); err != nil {
			return
		}
	}
}

// socketPair is two ends of a connection over loopback.
func socketPair() (near, far net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // nothing to wait for on the loopback interface
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	near, err = net.DialTimeout("tcp", l.Addr().String(), handshakeLimit) //nolint:noctx // the limit bounds it
	if err != nil {
		return nil, nil, err
	}
	far, err = l.Accept()
	if err != nil {
		_ = near.Close()
		return nil, nil, err
	}
	return near, far, nil
}
