package bench

import (
	"fmt"
	"strings"
)

// missedGoals is what is known of goals that have been missed on the machine of the results: where the time goes, and what was tried.
// Figures are from that machine.
func missedGoals() map[string]string {
	return map[string]string{
		"upsert-throughput-128": "An operation takes 0.8 us of the client's CPU. A third is its share of one write to the loopback interface, which does what the server's network card " +
			"would do and wakes its thread; parking and waking a goroutine 0.25 us, three looks at the clock 0.1 (two are the harness's), encoding and the " +
			"connection's lock 0.1, the answer's claim and copy 0.1. One goroutine that writes prepared requests and does nothing else has 10.3 times gocbcore, the " +
			"client by hand 6.5 to 7.2. Kept, though it hardly shows here: system calls that the runtime is not told of. Tried and not kept: submitters that write " +
			"while the reader completes answers (0.8 to 1.0 of the throughput).",
		"get-throughput-128": "6.2 to 8.0 in full runs: an operation takes what an Upsert does, and the memory of the value. One goroutine that writes prepared requests has " +
			"10.2 times gocbcore, the client by hand 6.4 to 6.5. Tried: what is said of Upserts.",
		"get-cpu-128": "0.121 to 0.152 in full runs, and 0.151 to 0.157 for the client by hand: it goes where the throughput does. A third is the write to the loopback interface.",
		"get-throughput-1024": "Memory: 44 to 48 lines are missed per operation in a cache of 1 MiB, some 40 of them the runtime's, the harness's worker's and the " +
			"value's. Into the caller's buffer it is 11.7 to 11.8. Kept: calls and results half as large, slots of 16 bytes, fields in the order of their use. Tried and " +
			"not kept: calls that are not cleared (nothing), the heap in huge pages (1.02; it is the program's to choose).",
		"get-p50-1": "On one core an operation is two switches between the processes, which are the kernel's. One goroutine that writes prepared requests has 0.80 of " +
			"gocbcore's, the client by hand 0.84. Tried and not kept: a reader that waits for a lone call's answer without asking the socket first, which has nothing yet in " +
			"three of four cases (0.98 to 0.99), and a lone caller who writes for himself (1.00). Not built: a reader that gives the core away before it parks, which helps where " +
			"the server is on the caller's core, as no cluster is, and makes a call wait for whoever else wants that core.",
		"get-p99-128": "Two rounds of a connection's callers instead of one, when a thread waits for the core that another one has. One goroutine that writes prepared " +
			"requests has 0.068. Kept: two connections, each of whose readers stays on a processor while it waits (0.23 before that, on another machine). Tried and not kept: " +
			"readers that write after 24, 36 or 48 callers had their turn instead of all (0.89 to 0.94 of the throughput).",
		"bulk-get": "The memory of the values: a fifth of a key's time is getting it and giving it back. Into the caller's buffers it is 30.1. Not built: values in pieces " +
			"that a batch shares, half of that, for one value would keep those of others alive.",
		"moved-cpu": "The map in each answer is copied and compared, the answer becomes an error, the attempt a line of the call's history (3 allocations and 1,088 bytes " +
			"where a plain call has 1 and 256), and the call waits for its time: threads sleep and are woken meanwhile. Kept: what is always retried is recorded " +
			"and parked in one turn of a lock, callers are woken together, a reader that left all of its callers waiting gives way to nobody, and the runtime is " +
			"not told of reads and short writes (all together 0.68 to 0.73). Tried and not kept: retries that share a timer (1.04), history and error in memory " +
			"that is used again (0.92 to 1.08).",
		"round-trip": "A lone call has 1.02 to 1.03 of it, sixteen prepared requests that one goroutine writes and reads 1.02, sixteen callers 1.07 to 1.08, those of the " +
			"client by hand 1.06. It lies between reading sixteen answers and writing the next sixteen requests: 57 us, by hand 34, for prepared requests 2.5. " +
			"About half of it is the second processor: with one, in the client alone, it is 31 us, and the p50 1.02 to 1.03 of the round trip. Tried: cores that " +
			"are kept awake (no help). Not built: callers woken on few processors where they are few.",
		"overload-queue": "It counts a call from before it is made until the harness has taken its outcome, so those that are being refused are in it. The connection has " +
			"32,768 at most.",
		"linear-nodes": "Memory that the other core has: a caller whose next key is another node's is woken where that node's reader is. With one " +
			"processor an operation takes 0.84 us instead of 0.99, and 1.6 to 1.9 times as long while the host has the two cores in different places (see *cores ns*). " +
			"The client by hand has 1.13 to 1.35 in the same rounds. Tried and not kept: a connection to each node for each processor (1.2 to 1.4 times the CPU), writes that wait (0.91 to 1.01, and a node " +
			"that is far away waits, too). Kept, though it hardly shows here: system calls that the runtime is not told of (0.90 to 1.03).",
	}
}

// goals lists the goals that are missed, and what is known of each.
func (r *report) goals() string {
	const where = "Where the time goes, and what was tried, is in [NOTES.md](NOTES.md)"
	var b strings.Builder
	known := missedGoals()
	for i := range r.Checks {
		o := &r.Checks[i]
		if o.Rounds == 0 || o.GoalMet {
			continue
		}
		fmt.Fprintf(&b, "* **%s**, %s for %s.", o.What, strings.TrimSpace(number(o.Value)+" "+o.Unit), o.Goal)
		if text := known[o.Name]; text != "" {
			b.WriteString(" " + text)
		}
		b.WriteString("\n")
	}
	if b.Len() == 0 {
		return where + ".\n"
	}
	return "## Goals that are not met\n\n" + where + "; in short, with figures from two cores of an AMD EPYC:\n\n" + b.String()
}
