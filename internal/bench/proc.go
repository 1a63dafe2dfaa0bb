package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// process is a child of this program: lines go in, lines come out. One goroutine uses it at a time.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

const (
	exitLimit   = 10 * time.Second // how long a child may take to end once its input has ended
	answerLimit = 90 * time.Second // how long it may take to answer
)

// start starts this program again. The child ends with ctx at the latest.
func start(ctx context.Context, as role, procs int, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return launch(ctx, procs, self, append([]string{"-role=" + string(as)}, args...)...)
}

// launch starts a program. It ends with ctx at the latest.
func launch(ctx context.Context, procs int, name string, args ...string) (p *process, err error) {
	p = &process{cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Stderr = os.Stderr
	p.cmd.WaitDelay = exitLimit
	if procs > 0 {
		p.cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", procs))
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReaderSize(out, 1<<20)
	return p, p.cmd.Start()
}

// read reads one line. A child that gives none in time is ended.
func (p *process) read(v any) error {
	kill := time.AfterFunc(answerLimit, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("a child has ended: %w", err)
	}
	return json.Unmarshal(line, v)
}

// ask sends one line and reads one.
func (p *process) ask(question, v any) error {
	line, err := json.Marshal(question)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("a child has ended: %w", err)
	}
	return p.read(v)
}

// stop ends the child and waits for it.
func (p *process) stop() error {
	_ = p.in.Close()
	kill := time.AfterFunc(exitLimit, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	return p.cmd.Wait()
}

// station is a responder's process.
type station struct {
	p     *process
	where clusters
}

func startStation(ctx context.Context, pinned bool) (*station, error) {
	p, err := start(ctx, roleResponder, 0, fmt.Sprintf("-pin=%v", pinned))
	if err != nil {
		return nil, err
	}
	s := &station{p: p}
	if err := p.read(&s.where); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return s, nil
}

func (s *station) stats() (responderStats, error) {
	var st responderStats
	return st, s.p.ask("", &st)
}

// place is what a client's process is made for. Processes with the same place are the same process.
type place struct {
	kind   string
	nodes  int
	mode   mode
	tls    bool
	procs  int
	pinned bool
	lazy   bool // no client is opened
}

// fleet is the processes that are running.
type fleet struct {
	ctx      context.Context // the life of the processes
	stations map[bool]*station
	clients  map[place]*process
	profiles string        // directory for CPU and memory profiles of clients; "" writes none
	spare    time.Duration // what is left for slices that are repeated because others used the machine
	now      time.Duration // the same, of the cell that is being measured
}

func newFleet(ctx context.Context) *fleet {
	return &fleet{ctx: ctx, stations: map[bool]*station{}, clients: map[place]*process{}}
}

func (f *fleet) station(pinned bool) (*station, error) {
	if s := f.stations[pinned]; s != nil {
		return s, nil
	}
	s, err := startStation(f.ctx, pinned)
	if err == nil {
		f.stations[pinned] = s
	}
	return s, err
}

// client gives the process of a place, connected.
func (f *fleet) client(at place) (*process, error) {
	if p := f.clients[at]; p != nil {
		return p, nil
	}
	s, err := f.station(at.pinned)
	if err != nil {
		return nil, err
	}
	args := []string{
		"-kind=" + at.kind, "-addrs=" + strings.Join(s.addresses(at), ","), "-mode=" + string(at.mode),
		fmt.Sprintf("-pin=%v", at.pinned), fmt.Sprintf("-lazy=%v", at.lazy),
	}
	if at.tls {
		args = append(args, "-ca="+s.where.CA)
	}
	if f.profiles != "" {
		name := fmt.Sprintf("%s/%s-%d-%s-tls=%v-procs=%d", f.profiles, at.kind, at.nodes, at.mode, at.tls, at.procs)
		args = append(args, "-profile="+name+".cpu", "-memprofile="+name+".mem")
	}
	p, err := start(f.ctx, roleClient, at.procs, args...)
	if err != nil {
		return nil, err
	}
	var a answer
	if err := p.read(&a); err != nil {
		return nil, errors.Join(fmt.Errorf("%s at %d nodes, %s: %w", at.kind, at.nodes, at.mode, err), p.stop())
	}
	f.clients[at] = p
	return p, nil
}

func (s *station) addresses(at place) []string {
	var out []string
	for _, n := range s.where.Nodes[fmt.Sprint(at.nodes)] {
		if at.tls {
			out = append(out, n.TLS)
		} else {
			out = append(out, n.Cleartext)
		}
	}
	return out
}

// release ends the clients that are not among those to keep.
func (f *fleet) release(keep map[place]bool) error {
	var errs []error
	for at, p := range f.clients {
		if !keep[at] {
			errs = append(errs, p.stop())
			delete(f.clients, at)
		}
	}
	return errors.Join(errs...)
}

// stop ends everything.
func (f *fleet) stop() error {
	errs := []error{f.release(nil)}
	for pinned, s := range f.stations {
		errs = append(errs, s.p.stop())
		delete(f.stations, pinned)
	}
	return errors.Join(errs...)
}
