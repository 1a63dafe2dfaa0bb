package observe

import (
	"context"
	"time"
)

// Hook is told of each operation when it begins and when it has ended.
type Hook interface {
	// Begin is told of an operation before anything of it is sent, on its caller's goroutine. Attempts, and the parts
	// of an operation that has parts, are made with the context that it gives: a span in it is their parent. Nil gives
	// ctx.
	Begin(ctx context.Context, of Target) context.Context
	// End is told how the operation has ended, once for each Begin, with the context that Begin has given. It may come
	// on any goroutine that is not a connection's.
	End(ctx context.Context, of Target, how Ended)
}

// Target is what an operation is and works on; parts without a meaning stay empty.
type Target struct {
	Service    string // kv, query, search, views, analytics, management, eventing
	Operation  string // the RFC's name: get, upsert, query ...
	Bucket     string
	Scope      string
	Collection string
	Durability string // majority, majority_and_persist_active, persist_majority
	// Parts says that it is made of operations that are told of as well, such as a batch: those are counted, and this
	// one is their parent.
	Parts bool
}

// Ended is how an operation has ended.
type Ended struct {
	Err      error // nil for a success; what its caller gets otherwise
	Took     time.Duration
	Retries  int     // resends, transparent ones and hedges among them
	Attempts []Tried // in the order of their ends; of an operation with parts, none
}

// Tried is one attempt of an operation. What is not known is zero.
type Tried struct {
	Endpoint     string // the node's address
	LocalAddr    string // this end of the connection
	ConnectionID string // client id/connection id
	OperationID  string // the opaque as 0x and hex digits
	Status       string // of an answer that is no success
	ErrorName    string // as in error.type; empty for a success
	Began        time.Time
	Took         time.Duration
	Server       time.Duration // that the server says it has worked
}

// begin tells the hook, which is code of the user's.
func (i *Instruments) begin(ctx context.Context, t Target) (of context.Context) {
	of = ctx
	defer i.contain()
	if c := i.o.Hook.Begin(ctx, t); c != nil {
		of = c
	}
	return of
}

func (o *Operation) tellHook(ctx context.Context, took time.Duration, out *Outcome) {
	defer o.i.contain()
	o.i.o.Hook.End(ctx, o.p.target, Ended{Err: out.Err, Took: took, Retries: out.Retries, Attempts: out.Attempts})
}

// Hooked reports whether a hook is told of operations, and wants to know of their attempts.
func (i *Instruments) Hooked() bool { return i != nil && i.o.Hook != nil }
