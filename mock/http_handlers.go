package mock

import (
	"net/http"
	"strings"
)

// Handle makes the management ports of all nodes give requests whose path begins with a prefix to a handler, without
// authentication; a nil handler ends that. The handler runs on goroutines of the connections, which Close waits for.
func (c *Cluster) Handle(prefix string, h http.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h == nil {
		delete(c.handlers, prefix)
		return
	}
	c.handlers[prefix] = h
}

// withHandlers puts the handlers of Handle before the management service.
func (c *Cluster) withHandlers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := next
		c.mu.Lock()
		for prefix, other := range c.handlers {
			if strings.HasPrefix(r.URL.Path, prefix) {
				h = other
			}
		}
		c.mu.Unlock()
		h.ServeHTTP(w, r)
	})
}
