package handshake

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// dialogue is the requests and answers that a fresh connection begins with. Requests go out in one flight where nothing
// depends on an answer; the answers come back in order, and those behind a failed step are ignored.
type dialogue struct {
	o     *Options
	ctx   context.Context // of the call of Connect
	limit time.Duration   // of the attempt
	addr  string
	nc    net.Conn
	creds Credentials

	info     Info
	step     Step
	answered bool
	proven   bool         // the login has succeeded, or no login is needed
	tail     bool         // what follows the login was sent
	owned    bool         // the last answer's value was inflated
	mechs    []string     // the server's list, nil when unknown
	pushed   *memd.Packet // the newest notification of a cluster map

	opaque uint32
	out    []byte
	wrong  error // why a request could not be queued
	buf    []byte
	pos, n int
}

// request queues a packet; the next call of next sends what is queued.
func (d *dialogue) request(op memd.Opcode, key, value []byte) {
	d.opaque++
	p := memd.Packet{Magic: memd.MagicReq, Opcode: op, Key: key, Value: value, Opaque: d.opaque}
	out, err := p.AppendTo(d.out)
	d.out, d.wrong = out, cmp.Or(d.wrong, err)
}

func (d *dialogue) send() error {
	if d.wrong != nil || len(d.out) == 0 {
		return d.wrong
	}
	_, err := d.nc.Write(d.out)
	clear(d.out) // it may hold a password
	d.out = d.out[:0]
	return err
}

// Limits of what a node sends before the login has succeeded: with the copy of the error map, a node can make a login
// allocate 64 KiB. Servers' answers to HELLO and SASL have less than 1 KiB, and the error map of kv_engine 8.0 has 19
// KiB.
const (
	loginLimit    = 4 << 10
	loginMapLimit = 24 << 10
	maxMechanisms = 64 // servers have five
)

// next sends what is queued and gives the next answer, which must be one to op. Its slices are valid until the next
// call.
func (d *dialogue) next(step Step, op memd.Opcode) (*memd.Packet, error) {
	d.step = step
	if err := d.send(); err != nil {
		return nil, err
	}
	for {
		p, err := d.packet()
		if err != nil {
			return nil, err
		}
		d.answered = true
		if !p.Magic.IsResponse() {
			d.notice(&p)
			continue
		}
		if p.Opcode != op {
			return nil, &Error{Addr: d.addr, Step: step, Err: errors.New("answer to another request: " +
				p.Opcode.String())}
		}
		return &p, d.inflate(&p)
	}
}

// inflate decompresses the value of an answer. Of what the dialogue can do without, such as the error map or why
// it was refused, nothing is left when that fails. Before the login the limits are those of what is not compressed.
func (d *dialogue) inflate(p *memd.Packet) error {
	d.owned = false
	if p.Datatype&memd.DatatypeSnappy == 0 {
		return nil
	}
	limit := loginLimit
	switch p.Opcode {
	case memd.OpGetErrorMap:
		limit = loginMapLimit
	case memd.OpGetClusterConfig:
		limit = d.o.ConfigLimit
	}
	inflated, err := call.Inflate(p.Value, p.Datatype, limit)
	p.Value, p.Datatype, d.owned = inflated, p.Datatype&^memd.DatatypeSnappy, true
	if p.Opcode == memd.OpGetErrorMap || p.Opcode == memd.OpGetClusterConfig || p.Status != memd.StatusSuccess &&
		p.Status != memd.StatusAuthContinue {
		return nil
	}
	return err
}

// notice remembers the newest notification of a cluster map: the map that the handshake brings may be older.
func (d *dialogue) notice(p *memd.Packet) {
	if p.Magic != memd.MagicServerReq || p.Opcode != memd.ServerOpClustermapChange || string(p.Key) != d.o.Bucket {
		return
	}
	if old := d.pushed; old != nil {
		epoch, rev, named := MapVersion(p)
		oldEpoch, oldRev, oldNamed := MapVersion(old)
		if oldNamed && (!named || epoch < oldEpoch || epoch == oldEpoch && rev < oldRev) {
			return
		}
	}
	own := *p
	own.Frames, own.Key = nil, bytes.Clone(p.Key)
	own.Extras, own.Value = bytes.Clone(p.Extras), bytes.Clone(p.Value)
	d.pushed = &own
}

// versionLen is the length of a notification's extras: epoch and revision.
const versionLen = 16

// MapVersion gives the version of the cluster map that a notification tells of; named is false when it names none.
func MapVersion(p *memd.Packet) (epoch int64, rev uint64, named bool) {
	if len(p.Extras) != versionLen {
		return 0, 0, false
	}
	return int64(binary.BigEndian.Uint64(p.Extras)), binary.BigEndian.Uint64(p.Extras[8:]), true
}

// packet reads one packet.
func (d *dialogue) packet() (p memd.Packet, err error) {
	for {
		in := d.buf[d.pos:d.n]
		if !d.answered {
			if err := Foreign(in); err != nil {
				return p, err
			}
		}
		limit, needed := d.limitOf(in)
		n, err := p.Parse(in, limit)
		switch {
		case err == nil:
			d.pos += n
			return p, nil
		case errors.Is(err, memd.ErrTooLarge) && !needed:
			return d.skip()
		case !errors.Is(err, memd.ErrShort):
			return p, err
		}
		if err := d.fill(n); err != nil {
			return p, err
		}
	}
}

// limitOf gives the limit of the body of the packet that begins with in, and whether the login needs that packet.
func (d *dialogue) limitOf(in []byte) (limit int, needed bool) {
	if d.proven || len(in) < memd.HeaderLen {
		return d.o.FrameLimit, true
	}
	if memd.Magic(in[0]).IsResponse() {
		switch memd.Opcode(in[1]) {
		case memd.OpHello, memd.OpSASLListMechs, memd.OpSASLAuth, memd.OpSASLStep:
			return loginLimit, true
		}
	}
	return loginMapLimit, false
}

// minRead is the length of the first read buffer.
const minRead = 16 << 10

// skip reads over the body of a packet that is too long, and gives what remains of an answer: that there is nothing in
// it. What remains of a notification is that there is some newer map.
func (d *dialogue) skip() (p memd.Packet, err error) {
	h, err := memd.ParseHeader(d.buf[d.pos:d.n], d.o.FrameLimit)
	if err != nil {
		return p, err
	}
	for left := memd.HeaderLen + h.BodyLen; ; {
		n := min(left, d.n-d.pos)
		d.pos += n
		if left -= n; left == 0 {
			p = memd.Packet{Magic: h.Magic, Opcode: h.Opcode, Opaque: h.Opaque}
			if h.Magic.IsResponse() {
				p.Status = memd.StatusTooBig
			} else {
				p.Key = []byte(d.o.Bucket)
			}
			return p, nil
		}
		if err := d.fill(1); err != nil {
			return p, err
		}
	}
}

// fill reads more, with room for n bytes from pos on.
func (d *dialogue) fill(n int) error {
	d.n, d.pos = copy(d.buf, d.buf[d.pos:d.n]), 0
	if n > len(d.buf) {
		// The header was checked against the limit; still, memory follows the bytes that have come.
		bigger := make([]byte, max(minRead, min(n, 2*len(d.buf))))
		copy(bigger, d.buf[:d.n])
		d.buf = bigger
	}
	m, err := d.nc.Read(d.buf[d.n:])
	d.n += m
	switch {
	case m > 0:
		return nil
	case err == nil:
		return io.ErrNoProgress
	}
	return err
}

func (d *dialogue) run() error {
	d.info.Addr, d.info.ID, d.info.Login = d.addr, d.o.ID, d.creds.Login
	if d.nc.LocalAddr() != nil {
		d.info.Local = d.nc.LocalAddr().String()
	}
	d.step = StepAuth
	login, err := d.newLogin()
	switch {
	case err != nil:
		return err
	case d.o.Memcached:
		return d.memcached(login)
	}
	d.request(memd.OpHello, []byte(d.o.Agent), memd.AppendFeatures(nil, d.o.Features...))
	d.request(memd.OpGetErrorMap, nil, []byte{0, 2})
	d.proven = login == nil
	if login != nil {
		d.request(memd.OpSASLListMechs, nil, nil)
		d.auth(login)
	}
	if login == nil || login.oneStep() { // what follows need not wait for an answer
		d.requestTail()
	}
	if err := d.readHead(); err != nil {
		return err
	}
	if login != nil {
		if err := d.finishLogin(login); err != nil {
			return err
		}
		d.proven = true
		d.o.passed(StepAuth)
	}
	return d.readTail()
}

// requestTail queues what follows the login.
func (d *dialogue) requestTail() {
	d.tail = true
	if d.o.Bucket != "" {
		d.request(memd.OpSelectBucket, []byte(d.o.Bucket), nil)
	}
	if d.o.WantConfig {
		d.request(memd.OpGetClusterConfig, nil, nil)
	}
}

func (d *dialogue) readHead() error {
	p, err := d.next(StepHello, memd.OpHello)
	if err != nil {
		return err
	}
	switch p.Status {
	case memd.StatusSuccess:
		if d.info.Features, err = memd.ParseFeatures(p.Value); err != nil {
			return err
		}
	case memd.StatusUnknownCommand, memd.StatusNotSupported: // it knows no features, and every feature is optional
	default: // its features are not known; an invalid argument or a temporary failure says nothing of them
		return d.refused(p, cberr.FeatureNotAvailable)
	}
	d.o.passed(StepHello)
	if p, err = d.next(StepErrorMap, memd.OpGetErrorMap); err != nil {
		return err
	}
	if p.Status == memd.StatusSuccess {
		d.info.ErrorMap = d.keep(p.Value)
	}
	return nil
}

// keep gives the last answer's value in memory of its own.
func (d *dialogue) keep(value []byte) []byte {
	if d.owned {
		return value
	}
	return slices.Clone(value)
}

func (d *dialogue) readTail() error {
	if d.o.Bucket != "" {
		p, err := d.next(StepSelectBucket, memd.OpSelectBucket)
		if err != nil {
			return err
		}
		switch p.Status {
		case memd.StatusSuccess:
			d.o.passed(StepSelectBucket)
		case memd.StatusAccess:
			return d.refused(p, cberr.BucketAccess)
		default: // absent for a user who may open it, warming up, too many connections: all of it may pass
			return d.refused(p, cberr.BucketNotFound)
		}
	}
	if !d.o.WantConfig {
		return nil
	}
	p, err := d.next(StepConfig, memd.OpGetClusterConfig)
	if err != nil {
		return err
	}
	d.info.NoConfig = d.givesNone(p.Status)
	if p.Status == memd.StatusSuccess && len(p.Value) > 0 {
		d.info.Config = d.keep(p.Value)
	}
	return nil
}

// givesNone reports whether a status says that the node has no maps to give over this protocol. Without a bucket that
// is also the answer of servers before 6.5. A map that is absent yet (0x01) is another matter: it comes later.
func (d *dialogue) givesNone(st memd.Status) bool {
	switch st {
	case memd.StatusUnknownCommand, memd.StatusNotSupported:
		return true
	case memd.StatusNoBucket, memd.StatusAccess:
		return d.o.Bucket == ""
	}
	return false
}

// refused makes the error of a step that was answered with a failure.
func (d *dialogue) refused(p *memd.Packet, kind *cberr.Kind) error {
	e := &Error{Addr: d.addr, Bucket: d.o.Bucket, Step: d.step, Answered: true, Status: p.Status, Kind: kind}
	var body struct {
		Error struct {
			Context string `json:"context"`
		} `json:"error"`
	}
	if p.Datatype&memd.DatatypeJSON != 0 && json.Unmarshal(p.Value[:min(len(p.Value), 64<<10)], &body) == nil {
		e.Context = body.Error.Context
	}
	return e
}

// memcached is the dialogue with a plain memcached server, which may want SASL and nothing else.
func (d *dialogue) memcached(l *login) error {
	if l == nil {
		return nil
	}
	d.request(memd.OpSASLListMechs, nil, nil)
	if err := d.readMechanisms(); err != nil {
		return err
	}
	if !slices.Contains(d.mechs, l.wire) {
		other, err := d.otherLogin(l)
		if err != nil {
			return err
		}
		l = cmp.Or(other, l)
	}
	d.auth(l)
	return d.readLogin(l, false)
}

func (d *dialogue) readMechanisms() error {
	p, err := d.next(StepMechanisms, memd.OpSASLListMechs)
	if err != nil {
		return err
	}
	if p.Status == memd.StatusSuccess {
		for name := range strings.FieldsSeq(string(p.Value)) {
			if len(d.mechs) < maxMechanisms {
				d.mechs = append(d.mechs, name)
			}
		}
	}
	return nil
}
