package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/retry"
)

// operation and attempt are what the mock's POST /v1/operations takes.
type operation struct {
	At         string    `json:"at"`
	Service    string    `json:"service"`
	Operation  string    `json:"operation"`
	Bucket     string    `json:"bucket,omitempty"`
	Collection string    `json:"collection,omitempty"`
	Key        string    `json:"key,omitempty"`
	Error      string    `json:"error,omitempty"`
	Took       int64     `json:"took_us"`
	Attempts   []attempt `json:"attempts"`
}

type attempt struct {
	Node   string `json:"node"`
	Status string `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
	Reason string `json:"reason,omitempty"`
	Took   int64  `json:"took_us,omitempty"`
}

// reporter is a core.OperationHook and a retry.Observer that posts the operations of contexts from about to a console.
// It never holds one up: what comes faster than it can post is not reported.
type reporter struct {
	client, url string
	ended       chan operation
	done        chan struct{}
}

// report starts a reporter; close ends it, after the cluster.
func report(client, controlAPI string) *reporter {
	r := &reporter{client, controlAPI + "/v1/operations", make(chan operation, 1024), make(chan struct{})}
	go r.post()
	return r
}

func (r *reporter) close() {
	close(r.ended)
	<-r.done
}

// post sends what has gathered, ten times a second.
func (r *reporter) post() {
	defer close(r.done)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for open := true; open; {
		var items []operation
		<-tick.C
		for more := true; more && len(items) < 1000; {
			select {
			case o, ok := <-r.ended:
				if open, more = ok, ok; ok {
					items = append(items, o)
				}
			default:
				more = false
			}
		}
		if len(items) == 0 {
			continue
		}
		body, err := json.Marshal(map[string]any{"client": r.client, "items": items})
		if err != nil {
			continue
		}
		r.send(body)
	}
}

// send posts once. What cannot be sent is not reported.
func (r *reporter) send(body []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	rq, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return
	}
	if answer, err := http.DefaultClient.Do(rq); err == nil {
		_ = answer.Body.Close() // what it says does not matter
	}
}

// story is what becomes of one operation, which is made with a context that has it.
type story struct {
	key string

	mu       sync.Mutex
	attempts []attempt
}

type storyKey struct{}

// about is a context for one operation.
func about(ctx context.Context, key []byte) context.Context {
	return context.WithValue(ctx, storyKey{}, &story{key: string(key)})
}

// Attempt implements retry.Observer. It is not told of operations that succeed at once.
func (*reporter) Attempt(a retry.AttemptInfo) {
	s, ok := a.Context.Value(storyKey{}).(*story)
	if !ok {
		return
	}
	t := attempt{Node: a.Endpoint}
	if a.Err != nil {
		t.Error, t.Reason = a.Err.Error(), a.Reason.String()
	}
	s.mu.Lock()
	s.attempts = append(s.attempts, t)
	s.mu.Unlock()
}

// Retry implements retry.Observer.
func (*reporter) Retry(*retry.Request, retry.Reason, time.Duration) {}

// GaveUp implements retry.Observer.
func (*reporter) GaveUp(*retry.Request, retry.Reason, error) {}

// Begin implements core.OperationHook.
func (*reporter) Begin(ctx context.Context, _ core.Operation) context.Context { return ctx }

// End implements core.OperationHook.
func (r *reporter) End(ctx context.Context, of core.Operation, how core.OperationEnd) {
	s, ok := ctx.Value(storyKey{}).(*story)
	if !ok {
		return
	}
	o := operation{
		At: time.Now().Format(time.RFC3339Nano), Service: of.Service, Operation: of.Operation, Bucket: of.Bucket,
		Key: s.key, Took: how.Took.Microseconds(),
	}
	if of.Collection != "" {
		o.Collection = of.Scope + "." + of.Collection
	}
	if how.Err != nil {
		o.Error = how.Err.Error()
	}
	s.mu.Lock()
	o.Attempts = s.attempts
	s.mu.Unlock()
	for i, a := range how.Attempts {
		if i == len(o.Attempts) { // it has succeeded at once
			o.Attempts = append(o.Attempts, attempt{Node: a.Endpoint})
		}
		o.Attempts[i].Status, o.Attempts[i].Took = a.Status, a.Took.Microseconds()
	}
	select {
	case r.ended <- o:
	default: // the console is told of the others
	}
}
