package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/couchcore/couchcore/mock"
)

// Options are those of a run.
type Options struct {
	Seed     uint64
	Duration time.Duration
	Scenario string // the only one, by name; "" is all in turn
	// Self is the command line that, with the name of a part behind it, runs Part, and Env is added to its environment.
	Self []string
	Env  []string
	// Plant is a defect of the client process, by name, to see that it is noticed.
	Plant string
	// Live is told how the run goes on. It may be nil.
	Live func(format string, args ...any)
}

const (
	nodes      = 3
	vbuckets   = 64
	bucketName = "default"
	password   = "canary-7c1f2ab94d"
	overTLS    = " over TLS"

	faultsShare = 45 // percent of a round in which there are faults
	calmPart    = 3 * time.Second
	calmGrace   = 1500 * time.Millisecond
	startLimit  = 3 * time.Minute  // how long a client process may take to be ready
	endLimit    = 90 * time.Second // more than neverLimit: what never ends is found by its caller first
	leastRound  = 5 * time.Second
	mostRound   = time.Minute // so that a long run has many turns of all scenarios
)

// supervisor runs the rounds.
type supervisor struct {
	o      Options
	report *Report

	mu      sync.Mutex
	started map[*process]struct{}
}

// Run runs rounds until the time is over, or ctx ends, and judges them. A run that is long enough for one round of each
// scenario has that, though it takes longer on a slow machine. When it returns, no process that it has started
// is left. The error is that of a run that could not be made.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := Supported(); err != nil {
		return nil, err
	}
	s := &supervisor{o: o, report: newReport(o.Seed), started: map[*process]struct{}{}}
	defer s.killAll()
	began, round := time.Now(), 0
	each := min(max(leastRound, o.Duration/time.Duration(len(scenarios))), mostRound)
	least := 1
	if o.Scenario == "" && o.Duration >= leastRound*time.Duration(len(scenarios)) {
		least = len(scenarios)
	}
	for ; ctx.Err() == nil && (round < least || time.Since(began)+each/2 < o.Duration); round++ {
		if err := s.round(ctx, round, each); err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
	}
	s.report.finish(time.Since(began), round, o.Scenario == "" && round >= len(scenarios))
	return s.report, nil
}

func (s *supervisor) live(format string, args ...any) {
	if s.o.Live != nil {
		s.o.Live(format, args...)
	}
}

// killAll ends what is left.
func (s *supervisor) killAll() {
	s.mu.Lock()
	all := s.started
	s.started = map[*process]struct{}{}
	s.mu.Unlock()
	for p := range all {
		p.kill()
	}
}

// round is a cluster, its nodes' processes, and a client process between them.
type round struct {
	*supervisor
	sc       *scenario     // one without a name is a soak's
	soaks    time.Duration // between two samples
	tls      bool
	number   int
	m        *mock.Cluster // nil where each node's process has one
	ca       string        // in PEM
	journals string        // a directory, where each node's process has a mock
	nodes    [nodes]*sockets
	client   *process
	ends     map[string]*ended
}

// sockets are a node's process, of which there is another one after it was killed.
type sockets struct {
	*process
	o    nodeOptions
	turn sync.Mutex // held by what makes a fault of the process
}

func (s *supervisor) round(ctx context.Context, number int, each time.Duration) error {
	defer s.killAll()
	rd := &round{
		supervisor: s, number: number, sc: s.scenario(number),
		tls: overTLSIn(s.o.Seed, number), ends: map[string]*ended{},
	}
	name := rd.sc.name
	if rd.tls {
		name += overTLS
	}
	s.report.Scenarios[name]++
	s.report.round = fmt.Sprintf("%d (%s)", number, name)
	s.live("chaos   round %d: %s   %d calls, %d violations", number, name, s.report.Calls, s.report.Violations)
	defer func() {
		if rd.m != nil {
			_ = rd.m.Close()
		}
		_ = os.RemoveAll(rd.journals)
	}()
	if err := rd.build(); err != nil {
		return err
	}
	if err := rd.startClient(); err != nil {
		return err
	}
	over := make(chan error, 1)
	go func() { over <- rd.listen() }()
	if beginCalm {
		sleep(ctx, min(rd.sc.pause, beginTime))
	}
	fctx, stop := context.WithTimeout(ctx, max(each*faultsShare/100, each-calmPart-time.Second))
	defer stop()
	rd.disturb(fctx, over)
	if ctx.Err() == nil {
		rd.client.say(sayCalm)
		rd.await(calmPart, over)
	}
	rd.client.say(sayEnd)
	rd.end(over)
	for _, n := range rd.nodes {
		n.kill()
	}
	rd.checkProcesses()
	log, err := rd.applied()
	if err != nil {
		return err
	}
	judge(s.report, rd.ends, log)
	s.report.Mutations += len(rd.ends)
	return nil
}

func (s *supervisor) scenario(number int) *scenario {
	if only := scenarioNamed(s.o.Scenario); only != nil {
		return only
	}
	return &scenarios[number%len(scenarios)]
}

// build starts the cluster and the nodes' processes.
func (rd *round) build() (err error) {
	if rd.sc.mocks {
		return rd.buildMocks()
	}
	if rd.m, err = mock.New(append(clusterOptions(), mock.TLS())...); err != nil {
		return err
	}
	rd.ca = string(rd.m.CA())
	for i := range rd.nodes {
		if rd.nodes[i], err = rd.pick([2]string{rd.m.Node(i).Addr(), rd.m.Node(i).TLSAddr()}); err != nil {
			return err
		}
		if err := rd.restart(rd.nodes[i]); err != nil {
			return err
		}
		kv, secure := rd.nodes[i].o.Ports[0].Listen, rd.nodes[i].o.Ports[1].Listen
		err := rd.m.SetAlternateAddress(i, &mock.AlternateAddress{
			Hostname: "127.0.0.1", Ports: map[string]int{"kv": portOf(kv), "kvSSL": portOf(secure)},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// clusterOptions are those of every mock.
func clusterOptions() []mock.Option {
	return []mock.Option{
		mock.Nodes(nodes), mock.Replicas(1), mock.Bucket(bucketName, vbuckets),
		mock.User(mock.DefaultUser, password), mock.Services(mock.ManagementService, mock.KVService),
	}
}

// pick gives a node's process ports that it can have, for what comes without TLS and with it.
func (rd *round) pick(to [2]string) (*sockets, error) {
	for try := range 20 {
		// below the ports that a system gives to clients: one of those could be in the way when the node comes back
		first := 10_000 + (rand.IntN(10_000)+try)*2
		n := &sockets{o: nodeOptions{Buffer: rd.sc.buffer, Ports: []port{
			{Listen: address(first), To: to[0]}, {Listen: address(first + 1), To: to[1]},
		}}}
		if free(n.o.Ports) {
			return n, nil
		}
	}
	return nil, errors.New("no free ports for a node")
}

// restart starts a node's process where it was.
func (rd *round) restart(n *sockets) (err error) {
	o := n.o
	o.Racy = rd.o.Plant == plantNode
	if n.process, err = rd.start(PartNode, "a node", o); err != nil {
		return err
	}
	return n.ready()
}

func (rd *round) startClient() (err error) {
	seeds := make([]string, nodes)
	for i, n := range rd.nodes {
		seeds[i] = n.o.Ports[0].Listen
		if rd.tls {
			seeds[i] = n.o.Ports[1].Listen
		}
	}
	o := clientOptions{
		Seed: rd.o.Seed<<16 + uint64(rd.number), Scenario: rd.sc.name, Hosts: seeds, Plant: rd.o.Plant,
		Every: rd.soaks,
	}
	if rd.tls {
		o.CA = rd.ca
	}
	var env []string
	if oneProcessor(rd.o.Seed, rd.number) {
		env = append(env, "GOMAXPROCS=1")
	}
	if rd.sc.memory > 0 {
		env = append(env, "GOMEMLIMIT="+strconv.FormatInt(rd.sc.memory, 10))
	}
	if rd.client, err = rd.start(PartClient, "the client", o, env...); err != nil {
		return err
	}
	late := afterRun(startLimit, rd.client.dump)
	defer late.stop()
	return rd.client.ready()
}

// turns is in how many turns of all scenarios each meets TCP and TLS, with one processor and with several.
const turns = 4

// turnOf is how often all scenarios have been had before a round. The seed says with which turn a run begins, so that
// short runs with other seeds have other rounds over TLS.
func turnOf(seed uint64, number int) int { return int((seed-1)%turns) + number/len(scenarios) }

// overTLSIn reports whether a round is over TLS: every other round of a turn, and each scenario in every other turn.
func overTLSIn(seed uint64, number int) bool {
	return (number%len(scenarios)+turnOf(seed, number))%2 == 1
}

// oneProcessor reports whether a round's client has one processor. Each scenario meets that with TLS and without in
// four turns of all scenarios; TLS changes with each turn.
func oneProcessor(seed uint64, number int) bool {
	at, turn := number%len(scenarios)%4, turnOf(seed, number)%turns
	return (at == 1 || at == 2) != (turn == 1 || turn == 2)
}

// listen takes what the client process says, until it ends.
func (rd *round) listen() error {
	for {
		m, err := rd.client.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Violation != nil:
			rd.report.add(*m.Violation)
		case m.Summary != nil:
			rd.report.count(m.Summary)
		case m.Ended != nil && rd.ends[m.Ended.ID] != nil:
			rd.report.add(Violation{
				Property: "P1", What: fmt.Sprintf("%s of %q ended twice", m.Ended.Verb, m.Ended.ID),
				Count: endedNotOnce,
			})
		case m.Ended != nil:
			rd.ends[m.Ended.ID] = m.Ended
		}
	}
}

// await waits, or shorter when the client process has ended.
func (rd *round) await(d time.Duration, over chan error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case err := <-over:
		over <- err
	}
}

// end waits for the client process to end. One that does not is made to show its goroutines.
func (rd *round) end(over chan error) {
	t := afterRun(endLimit, rd.client.dump)
	err := <-over
	hung := !t.stop()
	if ended := rd.client.finish(endLimit); err == nil {
		err = ended
	}
	switch {
	case hung:
		rd.report.add(Violation{
			Property: "P11", What: "the client process did not end: a call or Close has not returned",
			Detail: head(rd.client.errs.String(), 200), Count: endedNotOnce,
		})
	case err != nil:
		rd.report.add(Violation{
			Property: "P16", What: "the client process has failed: " + head(err.Error(), 1)[0],
			Detail: head(rd.client.errs.String(), 60),
		})
	}
}
