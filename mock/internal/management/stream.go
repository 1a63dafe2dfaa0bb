package management

import (
	"context"
	"net/http"
)

// Configurations, short and long, once or as a stream: one whenever there is a newer one, for as long as the client
// listens.

const configEnd = "\n\n\n\n" // behind each configuration of a stream

func (x *call) terseBucket() { x.config(x.s.host.Terse(x.value("bucket"), x.self)) }

func (x *call) nodeServices() { x.config(x.s.host.Terse("", x.self)) }

func (x *call) config(text []byte) {
	if text == nil {
		x.notFound()
		return
	}
	x.raw(text)
}

func (x *call) terseStream() {
	x.stream(func(*Cluster) []byte { return x.s.host.Terse(x.value("bucket"), x.self) })
}

func (x *call) servicesStream() {
	x.stream(func(*Cluster) []byte { return x.s.host.Terse("", x.self) })
}

func (x *call) bucketStream() {
	x.stream(func(c *Cluster) []byte {
		b := c.bucket(x.value("bucket"))
		if b == nil {
			return nil
		}
		return encode(x.bucketObject(c, b, true))
	})
}

func (x *call) poolStream() {
	x.stream(func(c *Cluster) []byte { return encode(x.poolObject(c)) })
}

// stream sends what make makes of each revision, until that is nothing or the client leaves. Of revisions that follow
// one another at once it may leave out all but the last.
func (x *call) stream(make func(*Cluster) []byte) {
	rc := http.NewResponseController(x.w)
	x.w.Header().Set("Content-Type", "application/json; charset=utf-8")
	for {
		c := x.cluster()
		text := make(c)
		if text == nil {
			return
		}
		if _, err := x.w.Write(append(text[:len(text):len(text)], configEnd...)); err != nil {
			return
		}
		if err := rc.Flush(); err != nil {
			return
		}
		select {
		case <-c.Changed:
		case <-x.r.Context().Done():
			return
		}
		ctx, stop := context.WithTimeout(x.r.Context(), x.s.host.Apart())
		<-ctx.Done()
		stop()
	}
}
