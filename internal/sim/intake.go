package sim

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// intake is a node's end of a connection over TLS, in the clear. The network orders and separates the requests of a
// plain connection, see link; of those over TLS it sees records, and how many requests the client has put into one
// depends on which of its goroutines was first. So it is done here: the node is given one request at a time, a
// nanosecond after the one before, and those of one instant in the order of what they ask for. Each answer has records
// of its own.
type intake struct {
	net.Conn
	once sync.Once
	more chan struct{} // has something while arrivals have not been looked at

	mu  sync.Mutex
	all []arrival
	end error // of the stream

	left []byte // of the request that is being handed out
}

// arrival is one request, or the rest of a stream that ends within one.
type arrival struct {
	at time.Time
	b  []byte
}

func newIntake(nc net.Conn) net.Conn { return &intake{Conn: nc, more: make(chan struct{}, 1)} }

// Read implements net.Conn.
func (k *intake) Read(b []byte) (int, error) {
	k.once.Do(func() { go k.receive() }) // it ends with the connection
	if len(k.left) == 0 {
		next, err := k.next()
		if err != nil {
			return 0, err
		}
		k.left = next
	}
	n := copy(b, k.left)
	k.left = k.left[n:]
	return n, nil
}

// next waits for the next request.
func (k *intake) next() ([]byte, error) {
	for {
		time.Sleep(time.Nanosecond)
		k.mu.Lock()
		waits, end := len(k.all) > 0, k.end
		if waits && k.all[0].at.Before(time.Now()) {
			b := k.all[0].b
			k.all = k.all[1:]
			k.mu.Unlock()
			return b, nil
		}
		k.mu.Unlock()
		switch {
		case waits: // others may come at its instant
		case end != nil:
			return nil, end
		default:
			<-k.more
		}
	}
}

// receive takes what comes until the connection ends.
func (k *intake) receive() {
	buf := make([]byte, 32<<10)
	var part []byte
	for {
		n, err := k.Conn.Read(buf)
		part = append(part, buf[:n]...)
		k.mu.Lock()
		for len(part) >= header && len(part) >= size(part) {
			n := size(part)
			k.add(bytes.Clone(part[:n]))
			part = part[n:]
		}
		if err != nil {
			if len(part) > 0 {
				k.add(part)
			}
			k.end = err
		}
		k.mu.Unlock()
		select {
		case k.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// add puts a request into its place.
func (k *intake) add(b []byte) {
	k.all = append(k.all, arrival{time.Now(), b})
	for i := len(k.all) - 1; i > 0; i-- {
		a, b := &k.all[i-1], &k.all[i]
		if !a.at.Equal(b.at) || !before(b.b, a.b) {
			return
		}
		*a, *b = *b, *a
	}
}

// NetConn is the connection over TLS: a node's reset needs the socket below.
func (k *intake) NetConn() net.Conn { return k.Conn }

// Write implements net.Conn.
func (k *intake) Write(b []byte) (n int, err error) {
	for n < len(b) {
		m, err := k.Conn.Write(b[n : n+min(size(b[n:]), len(b)-n)])
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}
