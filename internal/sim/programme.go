package sim

// The programme of faults that a client has to bear: 48 of them, each of which this simulation injects, or another test
// that the table names. A set of seeds that is large enough must meet every injection, see Totals.missing.

// The programme also asks that both branches of each safety guard of the orchestrator are taken. What most guards keep
// from happening is a second event at the same instant, which cannot be told from what leaves the client. Instead, the
// gate of package retry (gate_test.go) lets each guard do nothing in turn, and then always act: tests have to notice
// both.

// programmed is one fault of the programme.
type programmed struct {
	number int
	name   string
	// letters are those of the variants that the programme names: each is injected.
	letters string
	// injections are the faults and changes of this package that are it: each begins with its number, unless it is
	// named.
	injections []string
	// elsewhere are tests, as "folder Test", of what does not fit in here.
	elsewhere []string
}

// programme is the table.
func programme() []programmed {
	return []programmed{
		{1, "connection refused", "", nil, nil},
		{2, "accepted, then silence, plain and inside the handshake of TLS", "", nil, nil},
		{3, "reset before HELLO", "", nil, nil},
		{4, "reset at each step of the handshake", "", nil, nil},
		{5, "end of stream inside a header", "", nil, nil},
		{6, "end of stream inside a body", "", nil, nil},
		{7, "half-open", "", nil, nil},
		{8, "slow close by the peer", "", nil, nil},
		{9, "one-byte reads", "", nil, nil},
		{10, "short write, then an error", "", []string{shortWrites}, []string{
			"internal/conn TestD38FailedWriteIsJudgedByOffset",
		}},
		{11, "latency spike", "", nil, nil},
		{12, "little bandwidth", "", nil, nil},
		{13, "stall after n bytes, then the rest", "", nil, nil},
		{14, "black hole in one direction", "ab", nil, nil},
		{15, "partition of the client and some nodes", "", nil, nil},
		{16, "all sockets reset at once", "", nil, nil},
		{17, "too many open files", "", nil, nil},
		{18, "unknown opaque", "", nil, nil},
		{19, "the same answer twice", "", nil, nil},
		{20, "answers out of order", "", nil, nil},
		{21, "answer to a call that has ended", "", []string{string(afterItsCall)}, nil},
		{22, "wrong magic", "", nil, nil},
		{23, "lengths that do not add up", "", nil, nil},
		{24, "body of 4 GiB", "", nil, nil},
		{25, "framing extras: overrun, unknown, escapes", "abc", nil, nil},
		{26, "unknown status", "abcd", nil, nil},
		{27, "corrupt snappy value", "", nil, nil},
		{28, "snappy bomb", "", nil, nil},
		{29, "datatype JSON, but not JSON, an error with such a body", "", nil, nil},
		{30, "server request in the middle of a burst", "", nil, nil},
		{31, "HELLO refusing each feature", "", nil, nil},
		{32, "temporary failures", "", nil, nil},
		{33, "locked, busy", "ab", nil, nil},
		{34, "out of memory", "", nil, nil},
		{35, "durable writes: in progress, committed again, in doubt", "abc", nil, nil},
		{36, "not my vbucket, with a newer map", "", nil, nil},
		{37, "not my vbucket, with an older map or none", "", []string{"39 pushed: an older map"}, nil},
		{38, "not my vbucket for ever", "", nil, nil},
		{39, "maps of many revisions and epochs", "", nil, nil},
		{40, "collection dropped and created again", "", nil, nil},
		{41, "a node that lags behind with the manifest", "", nil, nil},
		{42, "bucket deleted and created again", "", nil, nil},
		{43, "failover, rebalance in and out, every node replaced", "abcd", nil, nil},
		{44, "login refused: everywhere, after a rotation, on one node", "abc", nil, nil},
		{45, "node with the configuration only", "", nil, []string{"core/field TestANodeWithTheConfigurationOnly"}},
		{46, "no access to one scope", "", nil, nil},
		{47, "names and certificates", "abcdefgh", nil, nil},
		{48, "services: cut rows, errors at the end, 503, redirects, trickling bodies, gzip", "abcdef", nil, nil},
	}
}

// Faults are the names of the faults and changes that Options.Without may name. What else is injected belongs to one of
// them, or to a part of the run.
func Faults() (names []string) {
	for _, f := range faults() {
		names = append(names, f.name)
	}
	for _, c := range changes() {
		names = append(names, c.name)
	}
	for _, step := range handshakeSteps {
		names = append(names, resetAt(closedAt(step)))
	}
	for _, m := range []manners{panics, blocks} {
		names = append(names, misbehaving(delivering, m).name)
	}
	return append(names, resetAt(beforeHello), emptyMap, lagging, anyRefusal, barredAtFirst)
}

// injections are the names of everything that this package injects.
func injections() []string {
	names := Faults()
	for _, l := range lies() {
		names = append(names, l.name)
	}
	for _, f := range hellos() {
		names = append(names, refused(f))
	}
	for s, table := range services {
		for _, e := range table() {
			names = append(names, served(s, e.name))
		}
	}
	return append(names, bucketFlushed, bucketRenewed, shortWrites)
}
