package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// The parts that a process of this package can have.
const (
	PartNode   = "node"
	PartClient = "client"
)

// Part runs a part of a process that the supervisor has started, until its standard input ends.
func Part(name string, in io.Reader, out io.Writer) error {
	switch name {
	case PartNode:
		return Node(in, out)
	case PartClient:
		return Client(in, out)
	}
	return fmt.Errorf("no part %q", name)
}

// process is one that the supervisor has started. It ends when its standard input does.
type process struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	errs  *tail
	once  sync.Once
	end   error
	told  bool // what it has written was looked at
}

// start starts a process that is to be part, and tells it its options.
func (s *supervisor) start(part, name string, options any, env ...string) (*process, error) {
	line, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	args := append(slices.Clone(s.o.Self[1:]), part)
	p := &process{name: name, cmd: exec.CommandContext(context.Background(), s.o.Self[0], args...), errs: new(tail)}
	p.cmd.Env = append(append(os.Environ(), s.o.Env...), env...)
	p.cmd.Stderr = p.errs
	ownGroup(p.cmd)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewScanner(out)
	p.lines.Buffer(nil, 1<<20)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.started[p] = struct{}{}
	s.mu.Unlock()
	p.say(string(line))
	return p, nil
}

// say writes a line to the process. One that has ended does not hear it.
func (p *process) say(line string) { _, _ = io.WriteString(p.in, line+"\n") }

// next is the process's next message; an error when it has ended.
func (p *process) next() (m message, err error) {
	if !p.lines.Scan() {
		if err = p.lines.Err(); err == nil {
			err = io.EOF
		}
		return m, err
	}
	return m, json.Unmarshal(p.lines.Bytes(), &m)
}

// ready waits for the process to say that it is.
func (p *process) ready() error {
	m, err := p.next()
	switch {
	case err == nil && m.Ready:
		return nil
	case err == nil:
		err = errors.New("it has said something else")
	}
	p.kill()
	return fmt.Errorf("%s did not become ready: %w: %s", p.name, err, p.errs.String())
}

// kill ends the process at once, and waits for that. It may be called again.
func (p *process) kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		p.wait()
	})
}

// finish waits for the process to end by itself, for as long as it may take.
func (p *process) finish(limit time.Duration) error {
	late := afterRun(limit, func() { _ = p.cmd.Process.Kill() })
	p.once.Do(p.wait)
	if !late.stop() {
		return fmt.Errorf("%s did not end", p.name)
	}
	return p.end
}

func (p *process) wait() {
	_ = p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		p.end = fmt.Errorf("%s: %w: %s", p.name, err, p.errs.String())
	}
}

// checkProcesses looks at what the processes of nodes that have ended have written: they are killed, so that one with a
// data race, or one that has died by itself before, ends as the others do (P16).
func (rd *round) checkProcesses() {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	for p := range rd.started {
		if p == rd.client || p.told {
			continue
		}
		p.told = true
		said := p.errs.String()
		if slices.ContainsFunc([]string{"DATA RACE", "panic: ", "fatal error: "}, func(sign string) bool {
			return strings.Contains(said, sign)
		}) {
			rd.report.add(Violation{Property: "P16", What: p.name + " has failed", Detail: head(said, 60)})
		}
	}
}

// tail keeps what a process has written last.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const maxTail = 256 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buf.Len()+len(b) <= maxTail { // what is first tells why
		t.buf.Write(b)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// head are the first lines of a text.
func head(text string, n int) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[:min(n, len(lines))]
}
