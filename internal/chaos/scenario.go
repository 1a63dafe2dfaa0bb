package chaos

import "time"

// scenario is what the client process of a round does, beside the calls that all make.
type scenario struct {
	name     string
	clusters int           // clients that are open at the same time
	workers  int           // goroutines that make calls
	pause    time.Duration // of a worker between two calls, at most
	value    int           // bytes of a value, at most
	buffer   int           // bytes of the sockets' buffers, on both sides; 0: the system's
	queue    int           // calls queued and in flight on a connection; 0: the defaults
	slow     bool          // nodes read slowly at times
	cancels  bool          // contexts of many calls end at once, again and again
	closes   bool          // clients are closed and opened again at any moment
	hogs     bool          // the process has no descriptor left at times
	memory   int64         // GOMEMLIMIT, bytes; 0: none
	mocks    bool          // each node's process is a mock, whose documents are gone when it is killed
}

// scenarios are taken in turn, one for each round.
var scenarios = []scenario{
	{name: "load", clusters: 1, workers: 32, pause: 2 * time.Millisecond, value: 1 << 10},
	{name: "close at any moment", clusters: 8, workers: 64, pause: 10 * time.Millisecond, value: 256, closes: true},
	{
		name: "full queues", clusters: 1, workers: 64, pause: 2 * time.Millisecond, value: 64 << 10, buffer: 4 << 10,
		queue: 16, slow: true,
	},
	{name: "descriptors exhausted", clusters: 4, workers: 32, pause: 5 * time.Millisecond, value: 256, hogs: true},
	{name: "10,000 callers", clusters: 1, workers: 10_000, pause: 20 * time.Second, value: 128},
	{name: "cancellation storms", clusters: 1, workers: 500, pause: 20 * time.Millisecond, value: 256, cancels: true},
	{name: "50 clusters", clusters: 50, workers: 100, pause: 20 * time.Millisecond, value: 256},
	{
		name: "little memory", clusters: 1, workers: 32, pause: 5 * time.Millisecond, value: 256 << 10,
		memory: 32 << 20,
	},
	{name: "mock processes", clusters: 1, workers: 64, pause: 2 * time.Millisecond, value: 256, mocks: true},
}

// Scenarios are the names of the scenarios.
func Scenarios() (names []string) {
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}

// scenarioNamed gives nil for a name that none has.
func scenarioNamed(name string) *scenario {
	for i := range scenarios {
		if scenarios[i].name == name {
			return &scenarios[i]
		}
	}
	return nil
}
