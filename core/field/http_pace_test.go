package field_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// connectsInASecond is how often a node of a service that does not answer is connected to.
const connectsInASecond = 4

// mostAccepted ends a run in which nothing is paced: net/http itself would go on.
const mostAccepted = 2000

// peer is the query service of a cluster in virtual time, by the byte.
type peer struct {
	c    *core.Cluster
	addr string

	mu    sync.Mutex
	serve func(nc net.Conn)
	dials []time.Time
	all   sync.WaitGroup
}

// accepts sets what becomes of connections from now on. Each is closed afterwards.
func (p *peer) accepts(serve func(nc net.Conn)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve = serve
}

func (p *peer) listen(l net.Listener) {
	for range mostAccepted {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		serve := p.serve
		p.mu.Unlock()
		p.all.Go(func() {
			defer nc.Close()
			serve(nc)
		})
	}
	l.Close()
}

// connects gives when the client has dialed the service.
func (p *peer) connects() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]time.Time(nil), p.dials...)
}

// newPeer is a cluster whose node runs the query service beside the key-value service.
func newPeer(
	t testing.TB, network *mock.Network, certificate *tls.Certificate, change ...func(*core.Config),
) *peer {
	t.Helper()
	p := &peer{serve: func(net.Conn) {}}
	listen := func() net.Listener {
		l, err := network.Listen("127.0.0.1:0")
		require.NoError(t, err)
		return l
	}
	service, node := listen(), listen()
	p.addr = service.Addr().String()
	names := `{"kv":%d,"n1ql":%s}`
	if certificate != nil {
		node = tls.NewListener(node, &tls.Config{Certificates: []tls.Certificate{*certificate}})
		names = `{"kvSSL":%d,"n1qlSSL":%s}`
	}
	_, port, err := net.SplitHostPort(p.addr)
	require.NoError(t, err)
	s := &scripted.Cluster{Features: scripted.AllFeatures()}
	s.AddListener(t, node)
	s.Map = func(_ *scripted.Node, bucket string) []byte {
		return s.Render(scripted.Spec{
			Bucket: bucket, Services: func(n *scripted.Node) string { return fmt.Sprintf(names, n.Port(), port) },
		})
	}
	p.all.Go(func() { p.listen(service) })
	t.Cleanup(func() {
		service.Close()
		p.all.Wait()
	})
	p.c = open(t, s, func(c *core.Config) {
		c.Net.Dial = func(ctx context.Context, _, addr string) (net.Conn, error) {
			if addr == p.addr {
				p.mu.Lock()
				p.dials = append(p.dials, time.Now())
				p.mu.Unlock()
			}
			return network.Dial(ctx, addr)
		}
		if certificate != nil {
			c.TLS.Config = &tls.Config{InsecureSkipVerify: true}
		}
		for _, f := range change {
			f(c)
		}
	})
	require.NoError(t, p.c.Bucket("default").WaitReady(within(t, 5*time.Second)))
	return p
}

// hears reads one request.
func hears(nc net.Conn) bool { return hearsNext(bufio.NewReader(nc)) }

func hearsNext(from *bufio.Reader) bool {
	r, err := http.ReadRequest(from)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

func says(nc net.Conn, status, header, body string) {
	_, _ = fmt.Fprintf(nc, "HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s", status, header, len(body), body)
}

const anAnswer = `{"results":[],"status":"success"}`

// servesWell is a healthy service.
func servesWell(nc net.Conn) {
	for from := bufio.NewReader(nc); hearsNext(from); {
		says(nc, "200 OK", "", anAnswer)
	}
}

// hangUps are services that end their connections without an answer. Those with a protocol speak TLS.
var hangUps = map[string]struct {
	protocol string
	serve    func(nc net.Conn)
}{
	"at once":          {"", func(net.Conn) {}},
	"with the request": {"", func(nc net.Conn) { hears(nc) }},
	"a while after the request": {"", func(nc net.Conn) {
		hears(nc)
		time.Sleep(20 * time.Millisecond)
	}},
	"in the headers": {"", func(nc net.Conn) {
		hears(nc)
		_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nConte")
	}},
	"in the body": {"", func(nc net.Conn) {
		hears(nc)
		_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
	}},
	"with a refusal": {"", func(nc net.Conn) {
		hears(nc)
		says(nc, "503 Service Unavailable", "Connection: close\r\n", "")
	}},
	"with a refusal, unannounced": {"", func(nc net.Conn) {
		hears(nc)
		says(nc, "503 Service Unavailable", "", "")
	}},
	"never, and speaks no HTTP": {"", func(nc net.Conn) {
		_, _ = io.WriteString(nc, "SSH-2.0-OpenSSH_9.6\r\n")
		_, _ = io.Copy(io.Discard, nc)
	}},
	"before the TLS handshake":       {"none", func(net.Conn) {}},
	"in the TLS handshake":           {"none", func(nc net.Conn) { _, _ = nc.Read(make([]byte, 1024)) }},
	"behind the TLS handshake":       {"http/1.1", func(net.Conn) {}},
	"with the request, over TLS":     {"http/1.1", func(nc net.Conn) { hears(nc) }},
	"behind the handshake of HTTP 2": {"h2", func(net.Conn) {}},
	"with the preface of HTTP 2":     {"h2", func(nc net.Conn) { _, _ = nc.Read(make([]byte, 1024)) }},
	"politely over HTTP 2": {"h2", func(nc net.Conn) {
		_, _ = nc.Read(make([]byte, 1024))
		_, _ = nc.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0})                         // SETTINGS
		_, _ = nc.Write([]byte{0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}) // GOAWAY, no stream
		_, _ = io.Copy(io.Discard, nc)
	}},
}

// shakesHands goes on as that when the TLS handshake is done.
func shakesHands(certificate *tls.Certificate, protocol string, next func(nc net.Conn)) func(nc net.Conn) {
	return func(nc net.Conn) {
		over := tls.Server(nc, &tls.Config{
			Certificates: []tls.Certificate{*certificate},
			NextProtos:   []string{protocol},
		})
		if over.Handshake() == nil {
			next(over)
		}
	}
}

// askPeer is a statement that may be sent again.
func askPeer(ctx context.Context, p *peer, s retry.Strategy) error {
	return runQuery(ctx, p.c, &query.Request{Statement: "SELECT 1", Readonly: true, Retry: s})
}

// No service makes the client open more than a few connections a second to one of its nodes, however many calls
// there are and whatever their strategy says. The first attempts of calls that come together are the callers' own.
func TestAServiceThatHangsUpIsPaced_D133_D140(t *testing.T) {
	certificate, _ := certificateOf(t)
	strategies := map[string]retry.Strategy{"default": nil, "BestEffort": retry.BestEffort{}, "at once": atOnce{}}
	for name, s := range strategies {
		for _, callers := range []int{1, 20} {
			for how, h := range hangUps {
				t.Run(fmt.Sprintf("%s, %d calls, %s", how, callers, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						network := mock.NewNetwork(mock.NetworkOptions{Latency: watchedLatency})
						var p *peer
						switch serve := h.serve; h.protocol {
						case "":
							p = newPeer(t, network, nil)
							p.accepts(serve)
						case "none":
							p = newPeer(t, network, &certificate)
							p.accepts(serve)
						default:
							p = newPeer(t, network, &certificate)
							p.accepts(shakesHands(&certificate, h.protocol, serve))
						}
						hungUp(t, p, callers, s)
					})
				})
			}
		}
	}
}

// hungUp has callers ask again and again.
func hungUp(t *testing.T, p *peer, callers int, s retry.Strategy) {
	ctx, cancel := context.WithTimeout(t.Context(), watchedTime)
	defer cancel()
	began := time.Now()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				_ = askPeer(ctx, p, s)
				time.Sleep(time.Millisecond)
			}
		})
	}
	all.Wait()
	require.Less(t, time.Since(began), watchedTime+10*time.Millisecond)
	dials := p.connects()
	// 16 to 21, and 15 once in some hundred runs: pauses are spread at random, and the last may reach beyond the time
	require.GreaterOrEqual(t, len(dials), connectsInASecond*3, "it is tried further on")
	require.LessOrEqual(t, len(dials), callers+connectsInASecond*5)
	require.LessOrEqual(t, most(dials[callers:], time.Second), connectsInASecond)
}

// A user's call that waits for its turn ends by its deadline, its context or Close, and says what it has waited for.
func TestACallThatWaitsToConnectSaysWhy_D140(t *testing.T) {
	for name, c := range map[string]struct {
		kind *cberr.Kind
		end  func(p *peer, cancel func())
	}{
		"deadline": {cberr.UnambiguousTimeout, func(*peer, func()) {}},
		"context":  {cberr.RequestCanceled, func(_ *peer, cancel func()) { cancel() }},
		"Close":    {cberr.RequestCanceled, func(p *peer, _ func()) { _ = p.c.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPeer(t, mock.NewNetwork(mock.NetworkOptions{Latency: watchedLatency}), nil)
				for range connectsInASecond {
					require.Error(t, runQuery(within(t, time.Minute), p.c, &query.Request{Statement: "DELETE FROM a"}))
				}
				began := time.Now()
				ctx, cancel := context.WithCancel(within(t, 300*time.Millisecond))
				result := make(chan error, 1)
				go func() { result <- runQuery(ctx, p.c, &query.Request{Statement: "DELETE FROM a"}) }()
				time.Sleep(100 * time.Millisecond)
				c.end(p, cancel)
				err := <-result
				cancel()
				require.ErrorIs(t, err, c.kind)
				require.LessOrEqual(t, time.Since(began), 300*time.Millisecond)
				require.ErrorContains(t, err, "waited for its turn to connect to "+p.addr)
				require.ErrorContains(t, err, "the latest 4 connections to it ended without an answer")
				require.Len(t, p.connects(), connectsInASecond)
			})
		})
	}
}

// A service that answers is connected to as often as its callers need it, at once, also after it had hung up.
func TestAHealthyServiceIsConnectedToAtOnce_D140(t *testing.T) {
	const callers = 100
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, mock.NewNetwork(mock.NetworkOptions{Latency: watchedLatency}), nil)
		slow := func(nc net.Conn) {
			for from := bufio.NewReader(nc); hearsNext(from); {
				time.Sleep(time.Second)
				says(nc, "200 OK", "Connection: close\r\n", anAnswer)
			}
		}
		together := func() (took time.Duration) {
			began := time.Now()
			var all sync.WaitGroup
			for range callers {
				all.Go(func() { require.NoError(t, askPeer(within(t, time.Minute), p, nil)) })
			}
			all.Wait()
			return time.Since(began)
		}
		p.accepts(slow)
		require.Less(t, together(), time.Second+10*time.Millisecond)
		require.Len(t, p.connects(), callers)
		p.accepts(func(net.Conn) {})
		for range 10 {
			require.Error(t, askPeer(within(t, time.Second), p, nil))
		}
		p.accepts(servesWell)
		for range 5 { // a few answers are enough
			require.NoError(t, askPeer(within(t, time.Minute), p, nil))
		}
		time.Sleep(2 * time.Second) // idle connections are closed
		p.accepts(slow)
		require.Less(t, together(), time.Second+10*time.Millisecond)
	})
}

// A service that comes back is used at once, by all who wait.
func TestAServiceThatComesBackIsUsedSoon_D140(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, mock.NewNetwork(mock.NetworkOptions{Latency: watchedLatency}), nil)
		time.AfterFunc(10*time.Second, func() { p.accepts(servesWell) })
		began := time.Now()
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() { require.NoError(t, askPeer(within(t, time.Minute), p, nil)) })
		}
		all.Wait()
		require.Less(t, time.Since(began), 12*time.Second)
	})
}
