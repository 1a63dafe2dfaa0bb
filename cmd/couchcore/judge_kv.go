package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// kvSubject is a key-value operation and what it met.
type kvSubject struct {
	spec       *call.Spec
	answered   bool // with status
	status     memd.Status
	why        retry.Reason // when nothing was answered
	lost       bool
	body       bool
	errors     *errormap.Map
	idempotent bool
	cas        bool
	absentOK   bool // a missing document is an answer
}

// meet implements subject: a real call, and a dispatcher that lets its first attempt meet what is asked about.
func (x *kvSubject) meet(j *judge) error {
	run := &kvJudge{judge: j, x: x}
	c := run.NewCall()
	x.load(&c.Req)
	err := c.Run(context.Background(), run)
	if c.Absent(err) {
		return nil
	}
	return err
}

// hedgeable implements subject.
func (x *kvSubject) hedgeable() bool {
	var r call.Request
	x.load(&r)
	return r.Hedgeable()
}

// hedged implements subject: the first attempt is the active copy's.
func (x *kvSubject) hedged(n int, err error) error {
	if n > 0 {
		return call.OfReplica(err)
	}
	return err
}

// mayMove implements subject: a not-my-vbucket answer may bring a map that routes the operation elsewhere.
func (x *kvSubject) mayMove() bool {
	return x.answered && x.status == memd.StatusNotMyVBucket && x.body
}

// lines implements subject.
func (x *kvSubject) lines(string) [][2]string {
	if !x.answered {
		return nil
	}
	return [][2]string{{"status", fmt.Sprintf("%s %s  %s", statusText(x.status), x.statusName(), x.statusMeaning())}}
}

func (x *kvSubject) entry() (errormap.Entry, bool) {
	if x.errors == nil {
		return errormap.Entry{}, false
	}
	return x.errors.Lookup(uint16(x.status))
}

func (x *kvSubject) statusName() string {
	if e, ok := x.entry(); ok && !x.status.Known() {
		return e.Name
	}
	return x.status.String()
}

func (x *kvSubject) statusMeaning() string {
	if e, ok := x.entry(); ok && !x.status.Known() {
		return e.Desc
	}
	return meaningOf(x.status)
}

// load makes an operation of any kind, with just enough in it to be valid.
func (x *kvSubject) load(r *call.Request) {
	r.Opcode = x.spec.Opcode
	if x.spec.Has(call.Keyed) {
		r.Key = []byte("key")
	}
	if x.cas || x.spec.Has(call.WantsCAS) {
		r.CAS = 1
	}
	r.SetExtras(make([]byte, x.spec.ReqExtras[0]))
	r.AbsentOK = x.absentOK
}

// kvJudge is a dispatcher without a network, and the owner of its one call.
type kvJudge struct {
	*judge
	x *kvSubject
}

// NewCall implements call.Runner.
func (e *kvJudge) NewCall() *call.Call { return call.NewCall() }

// Release implements call.Runner.
func (e *kvJudge) Release(*call.Call) {}

// Redispatch implements call.Owner; the explanation ends before any second attempt.
func (e *kvJudge) Redispatch(*call.Call) {}

// Cancel implements call.Owner.
func (e *kvJudge) Cancel(c *call.Call, cause error) bool { return e.orch.Cancel(c, cause) }

// Complete implements call.Owner.
func (e *kvJudge) Complete(f func()) { f() }

// errLost stands for what a socket says when it is lost.
var errLost = errors.New("the connection was lost")

// noDeadline is longer than any delay that could be asked about.
const noDeadline = 250 * 365 * 24 * time.Hour

// Dispatch implements call.Runner: the first attempt meets what was asked about.
func (e *kvJudge) Dispatch(c *call.Call) {
	e.met = true
	x := e.x
	now := time.Now()
	c.Bind(&call.Home{Owner: e, Base: now})
	c.Share()
	c.State.Deadline = now.Add(noDeadline)
	c.State.Idempotent = c.State.Idempotent || x.idempotent
	switch {
	case x.lost:
		e.why(retry.SocketClosedWhileInFlight)
		epoch, _ := c.State.Sent()
		e.orch.ConnLost(c, epoch, errLost)
	case x.answered:
		e.answer(c, x.status)
	case x.why.Unseen() || x.why.Terminal():
		e.why(x.why)
		c.State.NotSent()
		e.orch.MaybeRetry(c, x.why, nil, retry.Hint{})
	default:
		e.why(x.why)
		epoch, _ := c.State.Sent()
		c.State.Answered(epoch)
		e.orch.MaybeRetry(c, x.why, e.errorFor(c), retry.Hint{})
	}
	if e.out.retried {
		e.orch.Cancel(c, nil)
	}
}

// answer judges a status by the dispatcher's own function.
func (e *kvJudge) answer(c *call.Call, st memd.Status) {
	epoch, _ := c.State.Sent()
	c.State.Answered(epoch)
	p := memd.Packet{Opcode: e.x.spec.Opcode, Status: st}
	j := c.Judge(&p, e.x.errors)
	switch j.Class {
	case call.ClassSuccess:
		c.Succeed(&p, false)
	case call.ClassRetry:
		e.why(j.Reason)
		j.Hint.Moved = e.judge.x.moved
		e.orch.MaybeRetry(c, j.Reason, j.Err, j.Hint)
	case call.ClassFail, call.ClassAskMap:
		c.Fail(j.Err)
	}
}

// errorFor makes the error of the status that has the reason; nil when none has.
func (e *kvJudge) errorFor(c *call.Call) error {
	for st := range 0x100 {
		d := call.Classify(e.x.spec.Opcode, memd.Status(st), c.Req.CAS != 0)
		if d.Class == call.ClassRetry && d.Reason == e.x.why {
			return c.StatusError(&memd.Packet{Opcode: e.x.spec.Opcode, Status: memd.Status(st)}, d)
		}
	}
	return nil
}
