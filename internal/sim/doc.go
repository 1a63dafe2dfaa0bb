// Package sim is the simulation: the real client and the real mock cluster in one testing/synctest bubble, joined by
// the mock's network in memory, under faults, changes of the topology and strategies of any manners. One seed decides
// everything, and replays it exactly: see Instants in instants.go for what that takes.
//
// What happened is judged afterwards, from the calls' own ledger, the mock's apply log, the requests that the nodes
// received and what has gone over the client's end of each connection. What the client says of itself is judged by P13,
// P15 and P16, and is taken from it where nothing else shows it: for what reason a strategy is asked and an observer
// sees a call wait (P6), how often a call has been retried (P10), and in which stage a context has ended it. The
// properties are these:
//
//	P1   every call ends exactly once, and by its deadline
//	P2   nothing is applied twice
//	P3   what was acknowledged was applied
//	P4   a failure that claims not to have been applied was not; one in doubt was, at most once
//	P5   the history of each key is linearizable, a scan gives each document once, and the last scan gives what reads
//	     gave
//	P6   what is sent again is what was sent, when the call's strategy or the schedule of "not my vbucket" says, not
//	     sooner, and not later where there is a way, or from when on there is; nothing is sent after its stop, or over a
//	     connection that an answer has given up
//	P7   each call is judged by its own strategy, or by the one of the calls without one
//	P8   the map in use never goes back, and a newer one that an answer brings is used; nor do ids of collections, and
//	     no call ends for want of a collection that exists
//	P9   once the faults have stopped, calls succeed again: at most 5 s later, or 30 s where sockets may have vanished
//	     without a word; but for views that are only at nodes to which the password must not go
//	P10  attempts and dials are bounded, also where a server drives them
//	P11  Close ends in time, and leaves no goroutine, socket, timer or call that waits
//	P12  what waits is bounded, no connection in use is closed without a cause, and no answer of a service is unpacked
//	P13  no password is in the log, in an error, in a span, in a label of a metric or in the diagnostics
//	P14  no password leaves in the clear unless that is allowed, or for a host that is no node; logins begin with the
//	     first mechanism that is allowed, and use none that is not; no request goes to a node that has not proven to
//	     know the password, or whose certificate is wrong; with TLS no port without TLS is dialled
//	P15  each operation that is told of ends once, and so does each span, with the status of its call; as many retries
//	     are counted as calls have made, and calls have made as many as requests of theirs have left or services were
//	     asked for; as many durations are measured as calls were
//	P16  the log has no line about a broken invariant, nor about a panic but those of callbacks
//
// Most calls are for documents that others call for too; some workers visit documents of their own, with every kind of
// operation (visits.go). Some reads and removals are for a document for which no other call asks the same (apart.go):
// it has to be known whose the requests are that are judged.
//
// Requests to the services are judged by P1 to P6, P9, P10 and P12 to P15: from what the mock says that it has
// executed, from when they came, from their rows and errors, and from what has left for which node. When the faults
// have stopped, each service is asked for rows some times more: each of these requests must give all of them, see
// recovery.go. In some of the runs all connections are over TLS, and values and maps compressed.
//
// The faults are those of the programme, see programme.go. A fault of a connection or of answers counts when
// something has met it, see met.go: what is set for a connection over which nothing goes does not. A change of the
// cluster, and what happens to a node as a whole, counts when it has been made. A set of seeds that is large enough has
// to meet each of them, every reason for a retry, every branch of the decision about an answer, every kind of
// operation, every phase in which a call can be ended, and from a million calls on every kind of error. Three in a
// hundred histories at most may be left without a judgement because that would take too long.
//
// The package is beside the layers: it may import all of them and testing too. Nothing but the command's chaos
// subcommand and test files import it. It holds no fault of its own making that a user's own tests could not have: it
// uses the client's and the mock's public entry points only.
package sim
