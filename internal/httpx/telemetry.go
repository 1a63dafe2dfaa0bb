package httpx

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/telemetry"
)

// counted are the services whose attempts application telemetry counts.
var counted = map[httpsvc.Service]telemetry.Service{
	httpsvc.Query: telemetry.Query, httpsvc.Search: telemetry.Search, httpsvc.Analytics: telemetry.Analytics,
	httpsvc.Management: telemetry.Management, httpsvc.Eventing: telemetry.Eventing,
}

// count counts an attempt for application telemetry, which has taken so long until it was answered or lost. One whose
// number is 0 was never written and does not count.
func (k *call) count(epoch uint32, took time.Duration, err error) {
	svc, is := counted[k.r.Service]
	if epoch == 0 || !is || !k.c.o.Telemetry.On() {
		return
	}
	of := k.c.o.Telemetry.Of(telemetry.Where{Service: svc, Addr: k.endpoint})
	defer of.Release()
	if err != nil {
		of.Unanswered(errors.Is(k.ctx.Err(), context.DeadlineExceeded))
	} else {
		of.Answered(telemetry.Retrieval, took)
	}
}

// pingPause is after each ping or pong of a server, which so does not drive the client.
const pingPause = time.Millisecond

// WebSocket opens a websocket to a path of the management service at addr, with the client's credentials. It takes
// messages of at most limit bytes. ctx is for opening it; Close of the client ends it.
func (c *Client) WebSocket(ctx context.Context, addr, path string, limit int64) (*websocket.Conn, error) {
	scheme := "http"
	if c.tls.Load() != nil {
		scheme = "https"
	}
	h, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+addr+path, nil)
	if err != nil {
		return nil, errElsewhere
	}
	h.Header.Set("User-Agent", c.o.Agent)
	if err := c.authorize(ctx, h, httpsvc.Management, addr); err != nil {
		return nil, err
	}
	ws, _, err := websocket.Dial(traced(ctx), h.URL.String(), &websocket.DialOptions{ //nolint:bodyclose // Dial does
		HTTPClient: c.raw, HTTPHeader: h.Header,
		OnPingReceived: func(context.Context, []byte) bool { time.Sleep(pingPause); return true },
		OnPongReceived: func(context.Context, []byte) { time.Sleep(pingPause) },
	})
	var u *url.Error
	switch {
	case errors.As(err, &u): // says the address again, with a query that may hold a secret
		return nil, withoutURL(err)
	case err != nil:
		return nil, err
	}
	ws.SetReadLimit(limit)
	return ws, nil
}
