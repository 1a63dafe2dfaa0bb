// Package chaos runs the client over real sockets against nodes that are processes, while those are killed, stopped and
// reset, and judges what came of it. The command's `chaos --real` and `chaos --soak` are its users; it and test files
// are the only ones that import it, as with package sim.
//
// Processes. The supervisor is the process of the command. It holds the mock cluster: the documents and the log of what
// was applied outlive whatever happens to a node. Each node's sockets belong to a process of its own (see Node), which
// carries bytes between its clients and the cluster, and whose addresses are the ones that the cluster map names. So
// `kill -9` and SIGSTOP of a node are real: the kernel resets or fills its sockets. The client is a process too (see
// Client), so that limits on descriptors and memory bind it alone and that it can be counted what it leaves behind. The
// supervisor has started all of them, and ends them in every case.
//
// In the rounds of one scenario each node's process holds a mock of its own (see mockOptions): kill -9 ends it between
// the execution of a request and its answer, too. Its journal, a file, outlives it, and is what those rounds are judged
// by; its documents are gone, so that calls write new ones only, and nodes are not failed over.
//
// A run is a sequence of rounds. Each has a scenario, a client process, a cluster and node processes of its own, so
// that a run of any length keeps no more than a round's ledger. The properties are those of package sim:
//
//	P1   every call ends exactly once, and by its deadline + 50 ms
//	P2   nothing is applied twice
//	P3   what was acknowledged was applied, and is read later
//	P4   a failure that claims not to have been applied was not
//	P5   a document that one worker alone calls for has what its calls have written, and nothing else
//	P9   once the faults have stopped, calls succeed again
//	P11  Close ends in time, ends every call, and leaves no goroutine and no descriptor
//	P13  no password is in the log, in an error or in the diagnostics, in any form
//	P15  each operation that is told of ends once
//	P16  the log has no error, and the process does not die
//
// Nodes fail over, recover, and are rebalanced out and in, one at a time. A server's replicas are behind, so that a
// failover loses writes that were acknowledged and not durable; P3 would have to exempt those. The mock's replicas have
// each write when it is acknowledged, and two nodes are never out at the same time: here a failover may lose nothing,
// and nothing is exempt. One write of eight is durable, and a write to a vbucket that has no replica at the moment is
// refused, which P4 judges.
//
// Real time is not the client's alone: a process that the machine does not run cannot keep a deadline. The client
// process has a goroutine that sleeps, has a new goroutine take some memory and wait for its turn, and looks how late
// that is done (see watch): the end of a call starts goroutines and takes memory, too, and the collector makes a new
// goroutine work for what it takes. A call may be late by four times what that goroutine was late by meanwhile, because
// four goroutines have to be run, one after the other: the one that notices the end of a context, the one that ends the
// call, the one that runs its callback, and the caller's. Calls that are late only so are counted apart. That goroutine
// sees every pause of a process with one processor (GOMAXPROCS=1), which about half of all rounds have. Between the
// caller's call and the client's look at the clock, of which a hook tells, a pause makes the call end later by itself:
// it counts once.
//
// With several processors the system may take one thread away and not the others: only the goroutines of that thread's
// processor are late then, which the watch does not see. Linux counts for each thread how long it waited for a
// processor (schedstat; see delays). A call may be late by what all threads together waited between its deadline and
// its end, too. That is the right sum: the end of a call is a chain of steps, one after the other, and at each moment
// the chain waits for one thread at most. The sum over all threads is no less than the time for which any of them has
// held the chain up, whichever they were, and however often. Four times what the one thread has waited that waited most
// would be less where more than four hold a call up. A thread's wait is counted when it runs again, and each thread of
// the chain has run again when the call has ended. Samples are taken every 10 ms, and one after the end of a call that
// is late; the sum begins at the last sample that was over before the deadline. A thread that runs on a processor which
// is taken away from the machine does not wait for one: what the machine calls stolen is added. Beside much other work
// the sum explains almost any delay, since some thread waits all the time then: of planted delays of 200 ms, 38 to 58 %
// were found in rounds in which the supervisor's threads waited for 15 to 37 % of the time, and none in one at a load
// of 18 for two processors. So it counts for 1,950 ms at most: a call may never be later than where nothing is counted.
// Where the system does not count (macOS, a kernel without CONFIG_SCHED_INFO), 2 s are allowed instead of 50 ms in
// rounds with several processors.
//
// With 10,000 callers the same limits hold. Without the race detector they begin within a second, at the beginning of
// the faults. With it a call costs several times as much: that many at once would have more than the processors can do,
// and no program keeps 50 ms then. So they begin within six seconds there, before there are faults, and some hundred
// calls are in flight when a node fails.
//
// 2 s are less than the delays that a fault of the client adds: a handshake's limit, a pause between dials, a forgotten
// deadline. The simulation judges each deadline without any of this, because its time is not the machine's. A machine
// that is paused and goes on later has all its timers fire at once; the limits for what hangs count such a pause as one
// second (see runTimer).
package chaos
