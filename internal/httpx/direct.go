package httpx

import (
	"context"
	"io"
	"net/http"

	"github.com/couchcore/couchcore/internal/httpsvc"
)

// Get asks one node for something that is the client's own business, such as a cluster map: no map is needed for it, it
// is not retried, and it leaves no span. It blocks until the headers are there. ctx is that of the body too, which the
// caller closes.
func (c *Client) Get(ctx context.Context, addr, path string) (status int, body io.ReadCloser, err error) {
	scheme := "http"
	if c.tls.Load() != nil {
		scheme = "https"
	}
	h, err := http.NewRequestWithContext(traced(ctx), http.MethodGet, scheme+"://"+addr+path, nil)
	if err != nil {
		return 0, nil, err
	}
	h.Header.Set("User-Agent", c.o.Agent)
	if err := c.authorize(ctx, h, httpsvc.Management, addr); err != nil {
		return 0, nil, err
	}
	resp, err := c.own.Do(h) //nolint:bodyclose // the caller closes it
	if err != nil {
		return 0, nil, withoutURL(err)
	}
	rc := resp.Body
	return resp.StatusCode, &direct{rc, context.AfterFunc(ctx, func() { rc.Close() })}, nil
}

// direct is a body that ends with its context, whatever net/http makes of the answer.
type direct struct {
	io.ReadCloser
	stop func() bool
}

// Close implements io.Closer.
func (d *direct) Close() error {
	d.stop()
	return d.ReadCloser.Close()
}
