package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// demoCmd shows the client against an embedded mock cluster and checks what it claims.
type demoCmd struct {
	Duration time.Duration `default:"5s" help:"How long the load runs (default: 5s)."`
	Workers  int           `default:"64" help:"How many callers make the load (default: 64)."`
}

// demoHooks let a test break the demonstration, to see that it notices.
type demoHooks struct {
	beforeLoad func(*mock.Cluster)
	afterLoad  func(*mock.Cluster, *core.Bucket, *demoLoad)
	wrongPass  string        // "" is a password that is wrong
	patience   time.Duration // of BestEffort with it; 0 is a second
}

// demoReport is what the demonstration found.
type demoReport struct {
	OK                   bool           `json:"ok"`
	Acknowledged         int            `json:"acknowledged"`
	InDoubt              int            `json:"in_doubt"`
	Refused              int            `json:"refused"`
	Lost                 int            `json:"lost"`
	AppliedTwice         int            `json:"applied_twice"`
	AppliedThoughRefused int            `json:"applied_though_refused"`
	GoroutinesLeft       int            `json:"goroutines_left"`
	Ops                  int            `json:"ops"`
	Attempts             int            `json:"attempts"`
	Reasons              map[string]int `json:"reasons"`
	Failures             []string       `json:"failures"`
}

// demo is one run. problems are the sentences about what did not come out as promised.
type demo struct {
	*app
	cmd      *demoCmd
	m        *mock.Cluster
	cluster  *core.Cluster
	bucket   *core.Bucket
	report   demoReport
	problems []string
}

// Run implements the command.
func (c *demoCmd) Run(a *app) error {
	if c.Duration < 100*time.Millisecond || c.Workers < 1 || c.Workers > 4096 {
		return usagef("demo: --duration is at least 100ms, --workers is 1 to 4096")
	}
	before := runtime.NumGoroutine()
	d := &demo{app: a, cmd: c}
	err := d.show()
	if d.cluster != nil {
		err = errors.Join(err, d.cluster.Close())
	}
	if d.m != nil {
		err = errors.Join(err, d.m.Close())
	}
	d.report.GoroutinesLeft = goroutinesLeft(before)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return d.verdict()
}

// goroutinesLeft counts those that were not there before, after giving them time to end.
func goroutinesLeft(before int) int {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 400 {
		if runtime.NumGoroutine() <= before {
			return 0
		}
		<-tick.C
	}
	return max(0, runtime.NumGoroutine()-before)
}

// show runs everything up to the check; what it finds wrong it notes.
func (d *demo) show() error {
	for _, step := range []func() error{d.start, d.connect, d.writeAndRead, d.override, d.wrongPassword, d.load} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) problem(format string, args ...any) {
	d.problems = append(d.problems, fmt.Sprintf(format, args...))
}

func (d *demo) start() (err error) {
	d.m, err = mock.New(mock.Nodes(3), mock.Replicas(1), mock.Bucket(mock.DefaultBucket, 64))
	if err != nil {
		return err
	}
	return d.print("mock cluster   3 nodes, 1 replica, 64 vbuckets   %s", d.m.ConnString())
}

// open makes a client of the mock.
func (d *demo) open(password string, strategy retry.Strategy) (*core.Cluster, error) {
	cfg, err := core.ParseConnString(d.m.ConnString())
	if err != nil {
		return nil, err
	}
	cfg.Auth.Username, cfg.Auth.Password, cfg.Retry.Strategy = mock.DefaultUser, core.NewSecret(password), strategy
	return core.Open(context.Background(), cfg)
}

func (d *demo) connect() (err error) {
	began := time.Now()
	if d.cluster, err = d.open(mock.DefaultPassword, nil); err != nil {
		return err
	}
	d.bucket = d.cluster.Bucket(mock.DefaultBucket)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := d.bucket.WaitReady(ctx); err != nil {
		return err
	}
	m, _ := d.bucket.Map()
	return d.print("connected      %s   epoch %d rev %d   %s", d.bucket.Status()[0].Mechanism, m.Epoch, m.Rev,
		short(time.Since(began)))
}

const airline = `{"type":"airline","name":"40-Mile Air","iata":"Q5","icao":"MLA","callsign":"MILE-AIR","country":"United States"}`

func (d *demo) writeAndRead() error {
	ctx, key := context.Background(), []byte("airline_10")
	began := time.Now()
	w, err := kv.Do(ctx, d.bucket, kv.Upsert{Key: key, Value: []byte(airline), Datatype: memd.DatatypeJSON})
	if err != nil {
		return err
	}
	r, err := kv.Do(ctx, d.bucket, kv.Get{Key: key})
	if err != nil {
		return err
	}
	if string(r.Value) != airline || r.CAS != w.CAS {
		d.problem("the document that was read is not the one that was written")
	}
	return d.print("write, read    %s   %d bytes   cas %016x   %s", key, len(r.Value), r.CAS, short(time.Since(began)))
}

// override lets the server refuse a get for a while: the cluster's strategy tries again, this one call's does not.
func (d *demo) override() error {
	refuse := func() *mock.Injection {
		return d.m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 2}, mock.Status(memd.StatusTmpFail))
	}
	get := kv.Get{Key: []byte("airline_10")}

	in := refuse()
	res, err := kv.Do(context.Background(), d.bucket, get)
	in.Remove()
	if err != nil {
		return err
	}
	why := map[string]int{}
	for _, a := range res.RetryInfo().Log {
		why[a.Reason.String()]++
	}
	if res.RetryInfo().Retries() != 2 {
		d.problem("the default strategy made %d retries, not 2", res.RetryInfo().Retries())
	}
	if err := d.print("override       get, default strategy   ok after %d retries (%s)", res.RetryInfo().Retries(),
		counts(why)); err != nil {
		return err
	}

	in = refuse()
	noRetries := func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() }
	get.Retry = retry.Func(noRetries)
	began := time.Now()
	_, err = kv.Do(context.Background(), d.bucket, get)
	took := time.Since(began)
	in.Remove()
	out := failureOf(err)
	if out.Kind != cberr.TemporaryFailure.Name() || out.Attempts != 1 {
		d.problem("without retries the call ended as %s after %s", out.Kind, plural(out.Attempts, "attempt"))
	}
	return d.print("               get, no retries         %s   %s   %s", out.Kind, short(took),
		plural(out.Attempts, "attempt"))
}

// wrongPassword makes clients with a wrong password: one gives up when it knows, the other at its deadline, and says
// why.
func (d *demo) wrongPassword() error {
	kind, took, _, err := d.login(nil, 5*time.Second)
	if err != nil {
		return err
	}
	if kind != cberr.AuthenticationFailure.Name() || took > 2*time.Second {
		d.problem("a wrong password under the default strategy was %s after %s", kind, short(took))
	}
	if err := d.print("wrong password FastFailOnTerminalError (default)   %s   %s", kind, short(took)); err != nil {
		return err
	}
	kind, took, because, err := d.login(retry.BestEffort{}, cmp.Or(d.app.demo.patience, time.Second))
	if err != nil {
		return err
	}
	if kind != cberr.UnambiguousTimeout.Name() || because == "" {
		d.problem("a wrong password under BestEffort was %s, because: %s", kind, because)
	}
	return d.print("               BestEffort                          %s   %s, because: %s", kind, short(took),
		because)
}

// login tries a get with a password that is wrong.
func (d *demo) login(s retry.Strategy, timeout time.Duration) (kind string, took time.Duration, because string,
	err error,
) {
	password := "not the password"
	if d.app.demo.wrongPass != "" {
		password = d.app.demo.wrongPass
	}
	c, err := d.open(password, s)
	if err != nil {
		return "", 0, "", err
	}
	b := c.Bucket(mock.DefaultBucket)
	began := time.Now()
	_, opErr := kv.Do(context.Background(), b, kv.Get{Key: []byte("airline_10"), Common: kv.Common{Timeout: timeout}})
	took = time.Since(began)
	if errors.Is(opErr, cberr.AuthenticationFailure) {
		refused, all := 0, b.Status()
		for _, n := range all {
			if errors.Is(n.Err, cberr.AuthenticationFailure) {
				refused++
			}
		}
		because = fmt.Sprintf("%v on %d of %s", cberr.AuthenticationFailure, refused, plural(len(all), "node"))
	}
	return failureOf(opErr).Kind, took, because, c.Close()
}

// verdict prints the last lines and fails when anything is violated.
func (d *demo) verdict() error {
	r := &d.report
	if r.Lost > 0 || r.AppliedTwice > 0 || r.AppliedThoughRefused > 0 || r.GoroutinesLeft > 0 {
		d.problem("lost %d, applied twice %d, applied though refused %d, goroutines left %d", r.Lost, r.AppliedTwice,
			r.AppliedThoughRefused, r.GoroutinesLeft)
	}
	r.OK, r.Failures = len(d.problems) == 0, append([]string{}, d.problems...)
	if err := d.print("checked        %s acknowledged writes   lost %d   applied twice %d   goroutines left %d",
		grouped(r.Acknowledged), r.Lost, r.AppliedTwice, r.GoroutinesLeft); err != nil {
		return err
	}
	if d.json {
		if err := d.emit(r); err != nil {
			return err
		}
	}
	if !r.OK {
		if err := d.print("%s", d.paint(red, "FAILED")); err != nil {
			return err
		}
		return &shownError{exitFailed, "demo: violated: " + strings.Join(d.problems, "; ")}
	}
	return d.print("%s", d.paint(green, "OK"))
}
