package conn

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// lingering is a socket, its linger, and the other end.
func lingering(t *testing.T) (near, far *net.TCPConn, l *linger) {
	near, far = Loopback(t)
	l = newLinger(near)
	require.NotNil(t, l)
	return near, far, l
}

func TestALingeringReadIsTheSocketsRead(t *testing.T) {
	for name, read := range map[string]func(*linger, []byte) (int, error){
		"lingers": (*linger).Read, "quietly": (*linger).ReadQuietly,
		"lingers quietly": func(l *linger, b []byte) (int, error) { l.quiet = true; return l.Read(b) },
	} {
		t.Run(name, func(t *testing.T) { isTheSocketsRead(t, read) })
	}
}

func isTheSocketsRead(t *testing.T, read func(*linger, []byte) (int, error)) {
	near, far, l := lingering(t)
	b := make([]byte, 10)
	for _, wait := range []time.Duration{0, lingerMax / 2, 20 * lingerMax} {
		go func() {
			time.Sleep(wait)
			_, _ = far.Write([]byte("abc"))
		}()
		n, err := read(l, b)
		require.NoError(t, err)
		require.Equal(t, "abc", string(b[:n]))
	}
	require.NoError(t, near.SetReadDeadline(time.Unix(1, 0)))
	_, err := read(l, b)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, near.SetReadDeadline(time.Time{}))
	require.NoError(t, far.CloseWrite())
	_, err = read(l, b)
	require.Equal(t, io.EOF, err)

	near, _, l = lingering(t)
	time.AfterFunc(5*time.Millisecond, func() { _ = near.Close() })
	_, err = read(l, b)
	require.ErrorIs(t, err, net.ErrClosed)

	_, far, l = lingering(t)
	require.NoError(t, far.SetLinger(0))
	require.NoError(t, far.Close()) // resets it
	_, err = read(l, b)
	var call *os.SyscallError
	require.ErrorAs(t, err, &call)
	require.ErrorIs(t, err, syscall.ECONNRESET)

	pipe, _ := net.Pipe()
	require.Nil(t, newLinger(pipe), "what is no socket")
}

// inside calls f with the socket, as a read would. What f finds is looked at afterwards: a test that ended in there would keep
// the socket from being closed.
func (l *linger) inside(t *testing.T, f func(fd uintptr)) {
	require.NoError(t, l.raw.Control(f))
}

// It waits as long as it may each time, whatever the kernel has left of the time before.
func TestHowLongAReaderLingers(t *testing.T) {
	_, far, l := lingering(t)
	more := false
	wait := func(fd uintptr) { more = l.more(fd) }
	for _, left := range []time.Duration{0, 1, time.Hour} {
		l.left = syscall.NsecToTimespec(int64(left))
		began := time.Now()
		l.inside(t, wait)
		require.False(t, more)
		require.GreaterOrEqual(t, time.Since(began), lingerMax)
	}
	_, err := far.Write([]byte("abc"))
	require.NoError(t, err)
	for !more { // the bytes may take a moment
		l.inside(t, wait)
	}
}

// One whose last answers all came in time sets no timer of the kernel for the next, until one is late.
func TestAReaderTrustsInPromptAnswers(t *testing.T) {
	_, _, l := lingering(t)
	for range promptTimes {
		require.Equal(t, lingerMax, l.limit())
		l.waited(lingerMax)
	}
	require.Equal(t, lingerLong, l.limit())
	l.waited(lingerMax)
	require.Equal(t, lingerLong, l.limit())
	l.waited(lingerMax + 1)
	require.Equal(t, lingerMax, l.limit(), "from the beginning")

	l.prompt = promptTimes
	began := time.Now()
	l.inside(t, func(fd uintptr) { l.more(fd) })
	require.GreaterOrEqual(t, time.Since(began), lingerLong)
	require.Equal(t, lingerMax, l.limit(), "nothing has come")
}

// Before that it gives others their turns on its core, in each read.
func TestALingeringReaderGivesItsCoreAway(t *testing.T) {
	_, far, l := lingering(t)
	l.buf, l.turns = make([]byte, 10), lingerTurns
	l.inside(t, func(fd uintptr) { l.read(fd) })
	require.Zero(t, l.turns)
	_, err := far.Write([]byte("abc"))
	require.NoError(t, err)
	for more := false; !more; { // the bytes may take a moment
		l.inside(t, func(fd uintptr) { more = l.more(fd) })
	}
	_, err = l.Read(make([]byte, 10))
	require.NoError(t, err)
	require.Equal(t, lingerTurns, l.turns, "something was there at once")
}

// Closing a connection does not wait for a reader that lingers.
func TestClosingWakesAReaderThatLingers(t *testing.T) {
	near, _, l := lingering(t)
	c := &Conn{nc: near, linger: l, quit: make(chan struct{})}
	const long = 30 * time.Second
	waits, woken := make(chan struct{}), make(chan bool)
	go func() {
		_ = l.raw.Read(func(fd uintptr) bool {
			poll, limit := pollFd{fd: int32(fd), events: pollIn}, syscall.NsecToTimespec(int64(long))
			close(waits)
			n, _, _ := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
			woken <- n == 1
			return true
		})
	}()
	<-waits
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.Close(nil)
	}()
	require.True(t, <-woken)
	<-closed
}

// A read that finds nothing lingers once, and costs no memory; neither does one that finds something.
func TestALingeringReadParks(t *testing.T) {
	_, far, l := lingering(t)
	b := make([]byte, 10)
	l.buf = b
	found := true
	l.inside(t, func(fd uintptr) { found = l.read(fd) })
	require.False(t, found)
	require.True(t, l.done, "it has lingered")
	l.poll = pollFd{}
	l.inside(t, func(fd uintptr) { found = l.read(fd) })
	require.False(t, found)
	require.Zero(t, l.poll, "it does so once in each read")
	var err error
	allocs := testing.AllocsPerRun(100, func() {
		_, _ = far.Write([]byte("abc"))
		_, err = l.Read(b)
	})
	require.NoError(t, err)
	if !RaceEnabled { // the race detector allocates on its own
		require.Zero(t, allocs)
	}
	_, _ = far.Write([]byte("abc"))
	time.Sleep(time.Millisecond)
	_, err = l.Read(b)
	require.NoError(t, err)
	require.False(t, l.done, "and may do so in the next one")
}

// A reader that is about to linger has the runtime look after the others, as often as it is due.
func TestALingeringReaderLooksAround(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	_, _, l := lingering(t)
	other, from, _ := lingering(t)
	now := int64(lingerLook)
	around := func() bool {
		looked, ok := l.around(now)
		require.True(t, ok)
		return looked
	}
	require.True(t, around())
	var n int
	var err error
	require.NoError(t, l.event.raise.Control(func(fd uintptr) { n, err = syscall.Read(int(fd), make([]byte, 8)) }))
	require.Equal(t, syscall.EAGAIN, err, "the event has been taken back: %d", n)
	came := 0
	for range 100 {
		var had atomic.Bool
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, _ = other.Read(make([]byte, 10))
			had.Store(true)
		}()
		runtime.Gosched() // it waits for what comes now
		_, err := from.Write([]byte("abc"))
		require.NoError(t, err)
		now += int64(lingerLook) - 1
		require.False(t, around())
		now++
		require.True(t, around())
		runtime.Gosched() // the two come one after the other
		runtime.Gosched() // and sometimes whoever has given way comes first
		if had.Load() {
			came++
		}
		<-over
	}
	require.Greater(t, came, 50, "a busy machine may stop the thread of one in its system call")
	if !RaceEnabled {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			now += int64(lingerLook)
			l.around(now)
		}))
	}
	l.stop()
	l.stop()
	_, ok := l.around(now)
	require.False(t, ok, "there is no event any more")
}

// A reader that cannot have others looked after does not linger.
func TestAReaderThatCannotLookAround(t *testing.T) {
	_, _, l := lingering(t)
	var had syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &had))
	none := had
	none.Cur = 3
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	_, can := l.around(0)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &had))
	require.False(t, can)
	_, can = l.around(0)
	require.False(t, can, "it does not try again")

	_, _, l = lingering(t)
	looked, can := l.around(int64(lingerLook))
	require.True(t, looked && can)
	require.NoError(t, l.event.file.Close())
	_, can = l.around(2 * int64(lingerLook))
	require.False(t, can)
	_, can = l.around(3 * int64(lingerLook))
	require.False(t, can)
	(*linger)(nil).stop()
}

// Those for whom something has come have their turn before the reader lingers, which it does not while it is to rest.
func TestAReaderLooksAroundBeforeItLingers(t *testing.T) {
	if RaceEnabled {
		t.Skip("with the race detector goroutines come in a random order")
	}
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	_, _, l := lingering(t)
	other, from, _ := lingering(t)
	c := &Conn{base: time.Now(), linger: l, pair: &Pair{}}
	busy := &Conn{pair: c.pair}
	busy.noteLoad(fewStay)
	c.noteLoad(fewStay)
	c.pair.Begin(2)
	require.True(t, c.lingers())
	const times = 100
	turns := 0
	for range times {
		var had atomic.Bool
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, _ = other.Read(make([]byte, 10))
			had.Store(true)
		}()
		runtime.Gosched() // it waits for what comes now
		_, err := from.Write([]byte("abc"))
		require.NoError(t, err)
		l.looked = -int64(lingerLook)
		require.True(t, c.lingers())
		if had.Load() { // there is one processor
			turns++
		}
		<-over
	}
	// Not always: another thread may have taken the news from the system, or be where it is to wait for them, and a busy machine stops it
	// there. Nobody else can find out then.
	require.Greater(t, turns, times/2)
	c.pair.rest.Store(int64(time.Hour))
	l.looked = -int64(lingerLook)
	c.others = others{}
	require.False(t, c.lingers())
	require.Positive(t, l.looked, "it looks around all the same")
	require.Zero(t, c.others, "what it finds says nothing about lingering")
	c.pair.rest.Store(0)
	require.True(t, c.lingers())
	require.False(t, c.pair.rests.Load())
	l.looked = -int64(lingerLook)
	c.others = others{since: c.now() - int64(othersTime), took: int64(othersTime), times: 1}
	require.False(t, c.lingers(), "others are busy")
	require.True(t, c.pair.rests.Load())
	require.Greater(t, c.pair.rest.Load(), c.now())
	c.pair.rest.Store(0)
	c.pair.Begin(3)
	require.False(t, c.lingers())
	c.pair.Begin(2)
	l.stop()
	require.False(t, c.lingers())
	c.relay.stop()
	c.wg.Wait()
}

// Few are a crowd where the readers of two connections would linger.
func TestWhereFewAreACrowd(t *testing.T) {
	before := runtime.GOMAXPROCS(lingerProcessors)
	defer runtime.GOMAXPROCS(before)
	near, _ := Loopback(t)
	pipe, _ := net.Pipe()
	early := func(nc net.Conn, p *Pair, config *tls.Config) bool {
		c := newConn(nc, &Options{Pair: p, TLS: config}, &bootstrap{buf: make([]byte, minRead)})
		c.timer.Stop()
		return c.early
	}
	require.True(t, early(near, &Pair{}, nil))
	require.False(t, early(near, nil, nil), "it never has another one")
	require.False(t, early(pipe, &Pair{}, nil), "it is no socket")
	require.False(t, early(near, &Pair{}, &tls.Config{MinVersion: tls.VersionTLS13}))
	runtime.GOMAXPROCS(lingerProcessors + 1)
	require.False(t, early(near, &Pair{}, nil))
}
