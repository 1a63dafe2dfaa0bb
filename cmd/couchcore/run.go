package main

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
)

// Exit codes, part of the command's contract.
const (
	exitOK         = 0
	exitFailed     = 1 // the operation failed
	exitUsage      = 2
	exitNotApplied = 3 // timed out, not applied
	exitInDoubt    = 4 // timed out or failed, may have been applied
)

// cli is the whole command line.
type cli struct {
	JSON    bool             `help:"Print one JSON object and nothing else."`
	Version kong.VersionFlag `help:"Print the version of this command and of Go."`

	Demo      demoCmd        `cmd:"" group:"See it work" help:"Show the client at work: retries, a rebalance, a node that dies."`
	Mock      mockCmd        `cmd:"" group:"Stand-ins" help:"Run a stand-alone mock cluster for tests; see docs/testing.md."`
	KV        kvCmd          `cmd:"" group:"Data" name:"kv" help:"Run one key-value operation: get, upsert, lookup-in and so on."`
	Query     queryCmd       `cmd:"" group:"Data" help:"Run a SQL++ statement; metadata goes to standard error."`
	Analytics analyticsCmd   `cmd:"" group:"Data" help:"Run a statement on the analytics service."`
	Search    searchCmd      `cmd:"" group:"Data" help:"Search an index."`
	View      viewCmd        `cmd:"" group:"Data" help:"Query a view."`
	Ping      pingCmd        `cmd:"" set:"timeout=How long to wait for each answer (default: 10s)." group:"Health" help:"Ask every node of every service for an answer."`
	Diag      diagnosticsCmd `cmd:"" set:"timeout=How long to wait for the connections (default: 10s)." group:"Health" name:"diagnostics" help:"Show the state of each connection; no node is asked."`
	Wait      waitCmd        `cmd:"" set:"timeout=How long to wait (default: 10s)." group:"Health" help:"Wait until the cluster is ready, or say why it is not."`
	Doctor    doctorCmd      `cmd:"" set:"timeout=How long to wait for each connection and answer (default: 5s)." group:"Health" help:"Find out why a cluster cannot be used, and what to change."`
	Packets   packetsCmd     `cmd:"" group:"Health" help:"Show the packets of a capture, or those through a proxy."`
	Top       topCmd         `cmd:"" group:"Health" help:"Show nodes, load and failures through a proxy, refreshed."`
	Bench     benchCmd       `cmd:"" set:"timeout=The time for each call, all retries included (default: 2.5s)." group:"See it work" help:"Make load, and measure how long calls take."`
	Chaos     chaosCmd       `cmd:"" group:"See it work" help:"Run the simulation: virtual time, faults that a seed chooses."`
	Reasons   reasonsCmd     `cmd:"" group:"Explain" help:"List the retry reasons, or explain one of them."`
	Explain   explainCmd     `cmd:"" group:"Explain" help:"Say what the client does with an answer, and why."`
	Errors    errorsCmd      `cmd:"" group:"Explain" help:"List the errors, or explain an error, a status or a code."`
	Hash      hashCmd        `cmd:"" group:"Explain" help:"Show the vbucket of a key, and the nodes that hold it."`
	Strerror  strerrorCmd    `cmd:"" group:"Explain" help:"Say what a key-value status means."`
	Connstr   connstrCmd     `cmd:"" group:"Explain" help:"Take a connection string apart, and show every default."`
	Complete  completionCmd  `cmd:"" group:"Explain" name:"completion" help:"Print a script that lets a shell complete the command."`
	Gocbcore  gocbcoreCmd    `cmd:"" group:"Stand-ins" name:"gocbcore" help:"Write a module that replaces gocbcore: gocb on couchcore."`
}

const example = `The core of a Couchbase-style client, its mock cluster, and explanations of what it does. For example:

  couchcore demo
  couchcore kv get airline_10 -c couchbase://127.0.0.1:11210 -u Administrator -p -
  couchcore explain --service kv --op upsert --status 0x86`

// app is what a command runs in.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) string
	json           bool
	terminal       bool // stdout is one: a live line is welcome
	colour         bool
	stdinTaken     bool // by a value, so that no password can come from there
	grammar        *kong.Application
	demo           demoHooks
	doctor         doctorHooks
	tune           func(*core.Config) // of tests; nil changes nothing
}

// selected is the verb that was chosen, for commands that share their code.
type selected string

// usageError is a command line that cannot be used.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// shownError is a failure whose text is written for people and not to be changed.
type shownError struct {
	code int
	text string
}

func (e *shownError) Error() string { return e.text }

// helpShown ends the parsing after the help.
type helpShown struct{ code int }

// run is the whole command: it returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	return newApp(stdin, stdout, stderr, env).run(args)
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, env func(string) string) *app {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, env: env, terminal: isTerminal(stdout)}
	a.colour = a.terminal && env("NO_COLOR") == ""
	return a
}

func (a *app) run(args []string) (code int) {
	var failed error
	defer func() {
		if v := recover(); v != nil {
			h, ok := v.(helpShown)
			if !ok {
				panic(v)
			}
			code = h.code
		}
	}()
	if len(args) > 1 && args[0] == "mock" {
		if other := map[string]func([]string) error{
			"--couchbasemock": a.couchbaseMock, "--gocaves": a.gocaves,
		}[args[1]]; other != nil {
			if failed = other(args[2:]); failed != nil {
				return a.fail(failed)
			}
			return exitOK
		}
	}
	var c cli
	out := &watched{Writer: a.stdout}
	a.stdout = out
	defer func() {
		if code != exitOK && failed != nil && !out.written && (c.JSON || slices.Contains(args, "--json")) {
			_ = a.emit(map[string]failure{"error": failureOf(failed)}) // the exit code tells of the failure
		}
	}()
	k, err := kong.New(&c,
		kong.Name("couchcore"), kong.Description(example), kong.Writers(a.stdout, a.stderr), kong.Help(helpWithExample),
		helpVars, kong.Vars{"version": version()}, kong.KindMapper(reflect.String, kong.MapperFunc(bytesOf)),
		kong.TypeMapper(reflect.TypeFor[map[string]string](), kong.MapperFunc(pairOf)),
		kong.Exit(func(code int) { panic(helpShown{code}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 120}),
	)
	if err != nil {
		return a.fail(err)
	}
	ctx, err := k.Parse(args)
	if err != nil {
		failed = &usageError{parseText(err)}
		return a.fail(failed)
	}
	a.json = c.JSON
	for flag, late := range map[string]bool{"--couchbasemock": c.Mock.CouchbaseMock, "--gocaves": c.Mock.Gocaves} {
		if late {
			failed = usagef("mock: %s must come first: couchcore mock %s OPTIONS", flag, flag)
			return a.fail(failed)
		}
	}
	a.grammar = k.Model
	if failed = ctx.Run(a, selected(ctx.Selected().Name)); failed != nil {
		return a.fail(failed)
	}
	return exitOK
}

// watched is a writer that knows whether it was used.
type watched struct {
	io.Writer
	written bool
}

func (w *watched) Write(b []byte) (int, error) {
	w.written = true
	return w.Writer.Write(b)
}

// bytesOf takes an argument as it stands on the command line. kong's own way of reading texts replaces bytes that are
// not UTF-8, which a key or a value may have.
func bytesOf(ctx *kong.DecodeContext, target reflect.Value) error {
	t, err := ctx.Scan.PopValue("string")
	if err == nil {
		target.SetString(fmt.Sprint(t.Value))
	}
	return err
}

// pairOf is bytesOf for NAME=VALUE.
func pairOf(ctx *kong.DecodeContext, target reflect.Value) error {
	t, err := ctx.Scan.PopValue("NAME=VALUE")
	if err != nil {
		return err
	}
	name, value, ok := strings.Cut(fmt.Sprint(t.Value), "=")
	if !ok {
		return fmt.Errorf("expected NAME=VALUE but got %q", t.Value)
	}
	if target.IsNil() {
		target.Set(reflect.MakeMap(target.Type()))
	}
	target.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(value))
	return nil
}

// version is that of the module, of Go, and of the revision that the command was built from where that is another one.
func version() string {
	text := "couchcore " + core.Version
	if info, ok := debug.ReadBuildInfo(); ok {
		text += ", " + info.GoVersion
		if v := info.Main.Version; v != "" && v != "v"+core.Version {
			text += ", built from " + v
		}
	}
	return text
}

// fail writes the one line that names the cause and gives the exit code.
func (a *app) fail(err error) int {
	text := strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", "; ")), " ")
	_, _ = fmt.Fprintln(a.stderr, a.paint(red, "couchcore: ")+text)
	return exitCode(err)
}

// ambiguous reports whether a server may have applied what has failed.
func ambiguous(err error) bool {
	var said interface{ Ambiguous() bool }
	return errors.As(err, &said) && said.Ambiguous()
}

func exitCode(err error) int {
	var shown *shownError
	var usage *usageError
	switch {
	case errors.As(err, &shown):
		return shown.code
	case errors.As(err, &usage):
		return exitUsage
	case ambiguous(err):
		return exitInDoubt
	case errors.Is(err, cberr.UnambiguousTimeout):
		return exitNotApplied
	}
	return exitFailed
}
