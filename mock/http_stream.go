package mock

import "net/http"

// The streaming forms of configurations: one whenever there is a newer one, for as long as the client listens.

const configEnd = "\n\n\n\n" // behind each configuration of a stream

func (x *httpCall) terseStream() {
	x.stream(func(c *Cluster, b *bucket) []byte { return c.config(b, x.n) })
}

func (x *httpCall) verboseStream() {
	x.stream(func(c *Cluster, b *bucket) []byte { return marshal(c.fullBucket(b, x.n)) })
}

func (x *httpCall) servicesStream() {
	x.stream(func(c *Cluster, _ *bucket) []byte { return c.config(nil, x.n) })
}

// stream sends what f makes under the mutex, until the bucket is gone or the client is.
func (x *httpCall) stream(f func(*Cluster, *bucket) []byte) {
	c := x.n.c
	rc := http.NewResponseController(x.w)
	x.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	name := x.r.PathValue("bucket")
	var sent version
	for {
		c.mu.Lock()
		b, now, changed := c.buckets[name], c.version, c.changed
		var body []byte
		if name == "" || b != nil {
			body = f(c, b)
		}
		c.mu.Unlock()
		if body == nil {
			return
		}
		if now.newer(sent) {
			sent = now
			if _, err := x.w.Write(append(body[:len(body):len(body)], configEnd...)); err != nil {
				return
			}
			if err := rc.Flush(); err != nil {
				return
			}
		}
		select {
		case <-changed:
		case <-x.r.Context().Done():
			return
		}
	}
}
