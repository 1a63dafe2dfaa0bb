package mock

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// request is one request on its way through a node. It owns its packet and keeps the connection's state as it was when
// the request arrived, because a held one outlives later changes.
type request struct {
	k    *conn
	p    *memd.Packet
	spec *spec
	at   time.Time
	turn time.Duration // see pause

	features memd.Features
	b        *bucket
	user     *user

	value  []byte // of the packet, inflated
	packed bool   // it came compressed

	vb         uint16 // of the packet; in a memcached bucket the node's own
	committing bool   // the second half of a durable write
	cid        uint32
	key        []byte // without the collection's prefix
	keyErr     string // why the key field is wrong, empty when it is not
	level      memd.DurabilityLevel
	timeout    time.Duration // of the durability frame, 0 when it has none
	preserve   bool
	impersonal string // user that the request is made for

	fromReplica bool // answered by replicas of the vbucket, not by the active node
}

// reply is what a handler answers.
type reply struct {
	status   memd.Status
	cas      uint64
	datatype memd.Datatype
	extras   []byte
	key      []byte
	value    []byte
	context  string  // text of the enhanced error body
	manifest *uint64 // manifest uid in the error body
	before   []reply // answers that go out first, for STAT
	closes   bool    // the connection ends after the answer
	silent   bool    // no answer at all
}

func fail(s memd.Status, format string, args ...any) reply {
	return reply{status: s, context: fmt.Sprintf(format, args...)}
}

func (k *conn) newRequest(p *memd.Packet) *request {
	rq := &request{
		k: k, p: p, spec: specs[p.Opcode], at: time.Now(),
		features: k.granted(), b: k.bucket.Load(), user: k.user.Load(), value: p.Value, vb: p.VBucket,
	}
	rq.fromReplica = rq.spec != nil && rq.spec.replicaOnly
	if rq.spec != nil && rq.spec.key == keyDocument {
		rq.cid, rq.key, rq.keyErr = documentKey(p.Key, rq.features.Has(memd.FeatureCollections))
	}
	return rq
}

// path is the name of the request's collection, as far as it has one.
func (rq *request) path() string {
	if rq.b == nil || rq.spec == nil || rq.spec.key != keyDocument {
		return ""
	}
	rq.k.c.mu.Lock()
	defer rq.k.c.mu.Unlock()
	return rq.manifest().Path(rq.cid)
}

// handle answers one request. One that has to wait does so on a goroutine of its own if later ones may overtake it;
// otherwise it holds them up. It reports whether the connection goes on.
func (k *conn) handle(p *memd.Packet) bool {
	rq := k.newRequest(p)
	k.c.journalRequest(rq)
	k.c.count(rq)
	f, released := k.c.injected(rq)
	if f.request != nil {
		rq = rq.rewritten(f.request)
	}
	if f.before > 0 || f.hold {
		return k.later(rq, func() bool {
			if !rq.pause(f.before) || f.hold && !k.await(released) {
				return false
			}
			rep, wait := rq.begin(f)
			return k.finish(rq, f, released, rep, wait)
		})
	}
	rep, wait := rq.begin(f)
	if wait == nil && f.after == 0 && !f.keep {
		return k.answer(rq, &rep, f)
	}
	return k.later(rq, func() bool { return k.finish(rq, f, released, rep, wait) })
}

// rewritten is the request after a fault has changed its packet.
func (rq *request) rewritten(change func(*memd.Packet)) *request {
	p := *rq.p
	change(&p)
	p.Opcode, p.Opaque = rq.p.Opcode, rq.p.Opaque
	out := rq.k.newRequest(&p)
	out.at = rq.at
	return out
}

// later runs f, which waits, where that is allowed to happen.
func (k *conn) later(rq *request, f func() bool) bool {
	if rq.features.Has(memd.FeatureUnorderedExecution) && rq.spec != nil && rq.spec.reorder && rq.user != nil {
		if now := time.Now(); now.Equal(k.waitedAt) {
			k.waiting += k.c.set.apart
		} else {
			k.waitedAt, k.waiting = now, 0
		}
		rq.turn = k.waiting
		return k.c.spawn(func() {
			f()
			k.flush()
		})
	}
	k.flush() // what is answered already must not wait behind this
	return f()
}

// pause waits for d, and for the request's turn, see AnswersApart. It reports false when the connection or the cluster
// ended first.
func (rq *request) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	return rq.k.pause(d + rq.turn)
}

// begin executes a request under a fault, up to where it has to wait: then wait does the rest.
func (rq *request) begin(f *Fault) (rep reply, wait func() (reply, bool)) {
	switch {
	case f.nmvb != nil:
		return f.nmvb(rq), nil
	case f.lie && rq.spec != nil && rq.spec.mutates:
		return rq.lie(), nil
	case f.skip:
		return reply{}, nil
	}
	return rq.execute()
}

// finish waits as the request and the fault want it, and answers. It reports whether the connection goes on.
func (k *conn) finish(rq *request, f *Fault, released <-chan struct{}, rep reply,
	wait func() (reply, bool),
) bool {
	k.c.journalApplied(rq) // before what may end the process or the connection
	if wait != nil {
		var ok bool
		rep, ok = wait()
		if k.c.journalApplied(rq); !ok {
			return false
		}
	}
	if !rq.pause(f.after) || f.keep && !k.await(released) {
		return false
	}
	return k.answer(rq, &rep, f)
}

// answer sends a reply under a fault, and reports whether the connection goes on.
func (k *conn) answer(rq *request, rep *reply, f *Fault) bool {
	k.c.journalApplied(rq)
	var b []byte
	if !f.silent && !rep.silent && (f.answer != nil || !rq.hushed(rep)) {
		b = rq.encode(rep, f)
	}
	rq.tellAnswered(rep, b, f, f.closes || f.resets || rep.closes)
	if b != nil {
		for i := range rep.before {
			k.send(rq.encode(&rep.before[i], &noFault))
		}
		k.send(b)
		if f.twice {
			k.send(b)
		}
	}
	switch {
	case f.resets:
		k.nc.Reset()
		k.close()
		return false
	case f.closes || rep.closes:
		k.end()
		return false
	}
	return true
}

// encode is the answer's wire form, as this connection gets it.
func (rq *request) encode(rep *reply, f *Fault) []byte {
	granted := rq.k.granted()
	p := memd.Packet{
		Magic: memd.MagicRes, Opcode: rq.p.Opcode, Opaque: rq.p.Opaque, Status: rep.status, CAS: rep.cas,
		Datatype: rep.datatype, Extras: rep.extras, Key: rep.key, Value: rep.value,
	}
	if granted.Has(memd.FeatureTracing) {
		micros := max(1, time.Since(rq.at).Microseconds())
		code := memd.EncodeServerDuration(float64(micros))
		p.Frames, _ = memd.AppendFrame(nil, memd.FrameServerDuration, []byte{byte(code >> 8), byte(code)})
	}
	p.Frames = rq.appendUnits(p.Frames, rep)
	if !rep.status.CarriesPayload() && rep.status != memd.StatusNotMyVBucket {
		rq.errorBody(rep, &p, granted)
	}
	if f.answer != nil {
		f.answer(rq.p, &p)
	}
	if !granted.Has(memd.FeatureJSON) && p.Status.CarriesPayload() {
		p.Datatype &^= memd.DatatypeJSON
	}
	b, err := p.AppendTo(nil)
	if err != nil { // only a fault's function can build what does not fit
		p.Frames, p.Extras, p.Key, p.Value, p.Status = nil, nil, nil, nil, memd.StatusInternal
		b, _ = p.AppendTo(nil)
	}
	if f.bytes != nil {
		b = f.bytes(b)
	}
	return b
}

// errorBody is the JSON that explains a failure.
type errorBody struct {
	ManifestUID string     `json:"manifest_uid,omitempty"`
	Error       *errorText `json:"error,omitempty"`
}

type errorText struct {
	Context string `json:"context,omitempty"`
	Ref     string `json:"ref,omitempty"`
}

// errorBody gives a failure its body, and without XERROR the status that older clients know.
func (rq *request) errorBody(rep *reply, p *memd.Packet, granted memd.Features) {
	if !granted.Has(memd.FeatureXError) {
		p.Status = rq.oldStatus(rep.status)
	}
	if len(rep.value) > 0 {
		return
	}
	var body errorBody
	if rep.manifest != nil {
		body.ManifestUID = fmt.Sprintf("%x", *rep.manifest)
	}
	if rep.context != "" && granted.Has(memd.FeatureXError) {
		body.Error = &errorText{rep.context, fmt.Sprintf("00000000-0000-4000-8000-%012x", rq.k.c.errorID.Add(1))}
	}
	if body == (errorBody{}) || rq.k.c.bodiless(rq) {
		return
	}
	p.Value, _ = json.Marshal(body) // two strings cannot fail
	p.Datatype = memd.DatatypeJSON
}

// oldStatus is what a client without XERROR gets for the newer statuses. kv_engine has two for a lock, "locked" and
// "locked, try again" (engine_errc), which clients with XERROR see as one.
func (rq *request) oldStatus(s memd.Status) memd.Status {
	switch s {
	case memd.StatusLocked:
		switch op := baseForm(rq.p.Opcode); {
		case op == memd.OpGetLocked, op == memd.OpUnlockKey, op == memd.OpDelWithMeta, rq.spec.paths,
			op == memd.OpDelete && rq.p.CAS != 0: // without one it is noticed before the removal
			return memd.StatusTmpFail
		}
		return memd.StatusKeyExists
	case memd.StatusNotLocked:
		return memd.StatusTmpFail
	case memd.StatusConfigOnly:
		return memd.StatusNotSupported
	}
	return s
}
