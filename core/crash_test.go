package core_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

const (
	crashWorkers = 32
	crashLimit   = 1500 * time.Millisecond // of each call
	crashSlack   = 500 * time.Millisecond  // how late a busy machine may tell of a call's end
	// how long a node takes for an insert, so that some are in flight at any time
	crashAnswer = 5 * time.Millisecond
)

// crashCall is a call's line in the ledger. Each has a key of its own.
type crashCall struct {
	key     string
	insert  bool
	began   time.Time
	took    time.Duration
	err     error
	inDoubt bool // it may have been applied, the client says
}

// crashLoad makes calls until it is stopped.
type crashLoad struct {
	b    *core.Bucket
	name string

	mu    sync.Mutex
	calls []*crashCall
	stop  context.CancelFunc
	wg    sync.WaitGroup
}

func startCrashLoad(t *testing.T, b *core.Bucket, name string) *crashLoad {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &crashLoad{b: b, name: name, stop: stop}
	for id := range crashWorkers {
		l.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l.call(&crashCall{key: fmt.Sprintf("%s-%d-%d", name, id, n), insert: n%4 != 0})
			}
		})
	}
	t.Cleanup(func() { l.end() })
	return l
}

func (l *crashLoad) call(c *crashCall) {
	in := kv.Common{Timeout: crashLimit}
	c.began = time.Now()
	if c.insert {
		_, c.err = kv.Do(context.Background(), l.b, kv.Insert{Key: []byte(c.key), Value: []byte(c.key), Common: in})
	} else {
		_, c.err = kv.Do(context.Background(), l.b, kv.Get{Key: []byte(c.key), Common: in})
		if errors.Is(c.err, cberr.DocumentNotFound) {
			c.err = nil
		}
	}
	c.took = time.Since(c.began)
	var ke *kv.Error
	if errors.As(c.err, &ke) {
		c.inDoubt = ke.Ambiguous()
	}
	l.mu.Lock()
	l.calls = append(l.calls, c)
	l.mu.Unlock()
}

// end stops the load and gives its calls.
func (l *crashLoad) end() []*crashCall {
	l.stop()
	l.wg.Wait()
	return l.calls
}

// judgeCrash holds the calls against what the nodes received and applied, by key. It wants some calls in doubt.
func judgeCrash(t *testing.T, calls []*crashCall, received, applied map[string]int) {
	t.Helper()
	ok, inDoubt, failed := 0, 0, 0
	for _, c := range calls {
		require.LessOrEqual(t, c.took, crashLimit+crashSlack, "%s: %v", c.key, c.err)
		if !c.insert {
			require.False(t, c.inDoubt, "a read: %v", c.err)
			continue
		}
		require.LessOrEqual(t, received[c.key], 1, "%s was sent again: %v", c.key, c.err)
		require.LessOrEqual(t, applied[c.key], 1, c.key)
		switch {
		case c.err == nil:
			ok++
			require.Equal(t, 1, applied[c.key], "%s was acknowledged", c.key)
		case c.inDoubt:
			inDoubt++
		default:
			failed++
			require.Zero(t, received[c.key], "%s has reached a node, but its end says that it was not applied: %v",
				c.key, c.err)
		}
	}
	t.Logf("%d inserts: %d acknowledged, %d in doubt, %d not applied", ok+inDoubt+failed, ok, inDoubt, failed)
	require.Positive(t, ok)
	require.Positive(t, inDoubt, "nothing was in flight")
}

// noneFails makes calls for a while, all of which succeed.
func noneFails(t *testing.T, b *core.Bucket, name string) {
	t.Helper()
	l := startCrashLoad(t, b, name)
	time.Sleep(500 * time.Millisecond)
	calls := l.end()
	require.Greater(t, len(calls), crashWorkers)
	for _, c := range calls {
		require.NoError(t, c.err, c.key)
	}
}

// lossyProxy is a real port before a node's. Once it has vanished, what comes is lost without a word, on connections
// that are there and on new ones.
type lossyProxy struct {
	l  net.Listener
	to string
	wg sync.WaitGroup

	mu    sync.Mutex
	gone  bool
	conns []*net.TCPConn // towards the client
	back  []net.Conn
}

func startProxy(t *testing.T, to string) *lossyProxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &lossyProxy{l: l, to: to}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.reset()
		p.wg.Wait()
	})
	return p
}

func (p *lossyProxy) accept() {
	for {
		nc, err := p.l.Accept()
		if err != nil {
			return
		}
		client := nc.(*net.TCPConn)
		p.mu.Lock()
		p.conns = append(p.conns, client)
		gone := p.gone
		p.mu.Unlock()
		if gone {
			continue // it has no other end, and nothing reads from it
		}
		node, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.back = append(p.back, node)
		p.mu.Unlock()
		p.wg.Go(func() { p.carry(node, client) })
		p.wg.Go(func() { p.carry(client, node) })
	}
}

// carry moves bytes until the node has vanished, and then drops them.
func (p *lossyProxy) carry(to io.Writer, from io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		gone := p.gone
		p.mu.Unlock()
		if gone {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// vanish lets the node's sockets vanish.
func (p *lossyProxy) vanish() {
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
}

// back again: a node that has come back knows none of the old connections, and says so.
func (p *lossyProxy) comeBack() {
	p.reset()
	p.mu.Lock()
	p.gone = false
	p.mu.Unlock()
}

// reset ends every connection with a reset.
func (p *lossyProxy) reset() {
	p.mu.Lock()
	conns, back := p.conns, p.back
	p.conns, p.back = nil, nil
	p.mu.Unlock()
	for _, c := range conns {
		_ = c.SetLinger(0)
		_ = c.Close()
	}
	for _, c := range back {
		_ = c.Close()
	}
}

// A node dies under load without a word: every call ends in time and says the truth, nothing is sent twice, and after
// the node's return no call fails.
func TestANodeThatVanishesOverRealSockets(t *testing.T) {
	t.Parallel() // with the other one: both wait most of the time
	m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.RecordFrames())
	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpAdd}}, mock.DelayReply(crashAnswer))
	proxies := map[string]*lossyProxy{}
	for _, n := range m.Nodes() {
		proxies[n.Addr()] = startProxy(t, n.Addr())
	}
	b := open(t, m, func(c *core.Config) {
		c.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, proxies[addr].l.Addr().String())
		}
		c.Net.ConnectTimeout = time.Second
	}).Bucket("default")
	require.NoError(t, b.WaitReady(ctx(t)))
	load := startCrashLoad(t, b, "load")
	time.Sleep(300 * time.Millisecond)
	node := proxies[m.Node(1).Addr()]
	node.vanish()
	time.Sleep(3 * time.Second) // calls run out of time, again and again
	node.comeBack()
	time.Sleep(500 * time.Millisecond) // the next attempt to connect
	require.NoError(t, b.WaitReady(ctx(t)))
	noneFails(t, b, "after")
	calls := load.end()
	received, applied := map[string]int{}, map[string]int{}
	for _, f := range m.FrameLog() {
		if f.Opcode == memd.OpAdd {
			received[f.Key[1:]]++ // behind the default collection's id
		}
	}
	for _, a := range m.ApplyLog("default") {
		applied[a.Key]++
	}
	judgeCrash(t, calls, received, applied)
}

// crashChild is set for the process that the next test starts, and kills. Its value is the first port.
const crashChild = "COUCHCORE_TEST_CRASH_CHILD"

// TestCrashChild is no test: it is a cluster in a process of its own, until standard input ends.
func TestCrashChild(t *testing.T) {
	port, err := strconv.Atoi(os.Getenv(crashChild))
	if err != nil {
		t.Skip("a part of TestAClusterIsKilledOverRealSockets")
	}
	journal, err := os.OpenFile(os.Getenv(crashChild+"_JOURNAL"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer func() { _ = journal.Close() }()
	m, err := mock.New(mock.Nodes(3), mock.Bucket("default", 64), mock.Ports(port), mock.Journal(journal))
	if err != nil {
		_, _ = fmt.Fprintln(os.Stdout, "crashchild", err)
		return
	}
	defer func() { _ = m.Close() }()
	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpAdd}}, mock.DelayReply(crashAnswer))
	_, _ = fmt.Fprintln(os.Stdout, "crashchild", m.ConnString())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// startChild starts a cluster in a process of its own, whose connection string it gives; false when it cannot have the
// ports. kill ends the process at once.
func startChild(t *testing.T, port int, journal string) (conn string, kill func(), ok bool) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
	c.Env = append(os.Environ(), crashChild+"="+strconv.Itoa(port), crashChild+"_JOURNAL="+journal)
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	stdout, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	var once sync.Once
	kill = func() {
		once.Do(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
			_ = stdin.Close()
		})
	}
	t.Cleanup(kill)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if tail, found := strings.CutPrefix(lines.Text(), "crashchild "); found {
			conn = tail
			break
		}
	}
	if !strings.HasPrefix(conn, "couchbase://") {
		kill()
		return "", nil, false
	}
	return conn, kill, true
}

// The whole cluster's process is killed under load and started again at the same ports: every call ends in time and
// says the truth, nothing is sent twice, and after the return no call fails. What was received and applied is read from
// a file, which outlives the process.
func TestAClusterIsKilledOverRealSockets(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	var conn string
	var kill func()
	port, ok := 0, false
	for try := 0; !ok && try < 10; try++ {
		port = 10000 + (os.Getpid()*42+try*997)%20000
		conn, kill, ok = startChild(t, port, journal)
	}
	require.True(t, ok, "no free ports")
	cfg, err := core.ParseConnString(conn)
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password = "Administrator", core.NewSecret("password")
	c, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(ctx(t)))
	load := startCrashLoad(t, b, "load")
	for range 2 {
		time.Sleep(300 * time.Millisecond)
		kill()
		time.Sleep(800 * time.Millisecond)
		_, kill, ok = startChild(t, port, journal)
		require.True(t, ok)
		require.NoError(t, b.WaitReady(ctx(t)))
	}
	noneFails(t, b, "after")
	calls := load.end()
	received, applied := map[string]int{}, map[string]int{}
	lines, err := os.ReadFile(journal)
	require.NoError(t, err)
	for line := range strings.Lines(string(lines)) {
		var e mock.Entry
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		switch {
		case e.Opcode != memd.OpAdd.String():
		case e.What == mock.EntryReceived:
			received[e.Key]++
		case e.What == mock.EntryApplied:
			applied[e.Key]++
		}
	}
	judgeCrash(t, calls, received, applied)
}
