package conn

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// bootstrap is the dialogue that a fresh connection begins with. Requests go out in one flight where nothing depends
// on an answer; the answers come back in order, and those behind a failed step are ignored.
type bootstrap struct {
	o     *Options
	addr  string
	nc    net.Conn
	creds Credentials
	limit int

	info     Info
	step     Step
	answered bool
	proven   bool     // the login has succeeded, or no login is needed
	tail     bool     // what follows the login was sent
	owned    bool     // the last answer's value was inflated
	mechs    []string // the server's list, nil when unknown
	opaque   uint32
	pushed   *memd.Packet // the newest notification of a cluster map

	out    []byte
	buf    []byte
	pos, n int
}

// request queues a packet; send writes what is queued.
func (b *bootstrap) request(op memd.Opcode, key, value []byte) error {
	b.opaque++
	p := memd.Packet{Magic: memd.MagicReq, Opcode: op, Key: key, Value: value, Opaque: b.opaque}
	var err error
	b.out, err = p.AppendTo(b.out)
	return err
}

func (b *bootstrap) send() error {
	_, err := b.nc.Write(b.out)
	clear(b.out) // it may hold a password
	b.out = b.out[:0]
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

// next gives the next answer, which must be one to op. Its slices are valid until the next call.
func (b *bootstrap) next(step Step, op memd.Opcode) (*memd.Packet, error) {
	b.step = step
	for {
		p, err := b.packet()
		if err != nil {
			return nil, err
		}
		b.answered = true
		if !p.Magic.IsResponse() {
			b.notice(&p)
			continue
		}
		if p.Opcode != op {
			return nil, &ConnectError{Addr: b.addr, Step: step, Err: errors.New("answer to another request: " +
				p.Opcode.String())}
		}
		return &p, b.inflate(&p)
	}
}

// inflate makes the value of an answer a plain one. Of what the dialogue can do without, such as the error map or why
// it was refused, nothing is left when that fails. Before the login the limits are those of what is not compressed.
func (b *bootstrap) inflate(p *memd.Packet) error {
	b.owned = false
	if p.Datatype&memd.DatatypeSnappy == 0 {
		return nil
	}
	limit := loginLimit
	switch p.Opcode {
	case memd.OpGetErrorMap:
		limit = loginMapLimit
	case memd.OpGetClusterConfig:
		limit = b.o.ConfigLimit
	}
	plain, err := call.Inflate(p.Value, p.Datatype, limit)
	p.Value, p.Datatype, b.owned = plain, p.Datatype&^memd.DatatypeSnappy, true
	if p.Opcode == memd.OpGetErrorMap || p.Opcode == memd.OpGetClusterConfig || p.Status != memd.StatusSuccess &&
		p.Status != memd.StatusAuthContinue {
		return nil
	}
	return err
}

// notice remembers the newest notification of a cluster map: the map that the handshake brings may be older.
func (b *bootstrap) notice(p *memd.Packet) {
	if p.Magic != memd.MagicServerReq || p.Opcode != memd.ServerOpClustermapChange || string(p.Key) != b.o.Bucket {
		return
	}
	if old := b.pushed; old != nil {
		epoch, rev, named := MapVersion(p)
		oldEpoch, oldRev, oldNamed := MapVersion(old)
		if oldNamed && (!named || epoch < oldEpoch || epoch == oldEpoch && rev < oldRev) {
			return
		}
	}
	own := *p
	own.Frames, own.Key = nil, bytes.Clone(p.Key)
	own.Extras, own.Value = bytes.Clone(p.Extras), bytes.Clone(p.Value)
	b.pushed = &own
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
func (b *bootstrap) packet() (p memd.Packet, err error) {
	for {
		in := b.buf[b.pos:b.n]
		limit, needed := b.limitOf(in)
		n, err := p.Parse(in, limit)
		switch {
		case err == nil:
			b.pos += n
			return p, nil
		case errors.Is(err, memd.ErrTooLarge) && !needed:
			return b.skip()
		case !errors.Is(err, memd.ErrShort):
			return p, err
		}
		if err := b.fill(n); err != nil {
			return p, err
		}
	}
}

// limitOf gives the limit of the body of the packet that begins with in, and whether the login needs that packet.
func (b *bootstrap) limitOf(in []byte) (limit int, needed bool) {
	if b.proven || len(in) < memd.HeaderLen {
		return b.limit, true
	}
	if memd.Magic(in[0]).IsResponse() {
		switch memd.Opcode(in[1]) {
		case memd.OpHello, memd.OpSASLListMechs, memd.OpSASLAuth, memd.OpSASLStep:
			return loginLimit, true
		}
	}
	return loginMapLimit, false
}

// skip reads over the body of a packet that is too long, and gives what remains of an answer: that there is nothing in
// it. What remains of a notification is that there is some newer map.
func (b *bootstrap) skip() (p memd.Packet, err error) {
	h, err := memd.ParseHeader(b.buf[b.pos:b.n], b.limit)
	if err != nil {
		return p, err
	}
	for left := memd.HeaderLen + h.BodyLen; ; {
		n := min(left, b.n-b.pos)
		b.pos += n
		if left -= n; left == 0 {
			p = memd.Packet{Magic: h.Magic, Opcode: h.Opcode, Opaque: h.Opaque}
			if h.Magic.IsResponse() {
				p.Status = memd.StatusTooBig
			} else {
				p.Key = []byte(b.o.Bucket)
			}
			return p, nil
		}
		if err := b.fill(1); err != nil {
			return p, err
		}
	}
}

// fill reads more, with room for n bytes from pos on.
func (b *bootstrap) fill(n int) error {
	if b.pos > 0 {
		copy(b.buf, b.buf[b.pos:b.n])
		b.n -= b.pos
		b.pos = 0
	}
	if n > len(b.buf) {
		// The header was checked against the limit; still, memory follows the bytes that have come.
		bigger := make([]byte, max(minRead, min(n, 2*len(b.buf))))
		copy(bigger, b.buf[:b.n])
		b.buf = bigger
	}
	m, err := b.nc.Read(b.buf[b.n:])
	b.n += m
	if m == 0 && err == nil {
		err = io.ErrNoProgress
	}
	if m > 0 {
		return nil
	}
	return err
}

func (b *bootstrap) run() error {
	b.info.Addr, b.info.ID, b.info.Login = b.addr, b.o.ID, b.creds.Login
	if b.nc.LocalAddr() != nil {
		b.info.Local = b.nc.LocalAddr().String()
	}
	if b.o.Bare {
		return b.bare()
	}
	if err := b.request(memd.OpHello, []byte(b.o.Agent), memd.AppendFeatures(nil, b.o.Features...)); err != nil {
		return err
	}
	if err := b.request(memd.OpGetErrorMap, nil, []byte{0, 2}); err != nil {
		return err
	}
	login, err := b.newLogin()
	if err != nil {
		return err
	}
	b.proven = login == nil
	if login != nil {
		if err := b.request(memd.OpSASLListMechs, nil, nil); err != nil {
			return err
		}
		if err := b.auth(login); err != nil {
			return err
		}
	}
	if login == nil || login.oneStep { // nothing to wait for before the rest
		if err := b.requestTail(); err != nil {
			return err
		}
	}
	if err := b.send(); err != nil {
		return err
	}
	if err := b.readHead(); err != nil {
		return err
	}
	if login != nil {
		if err := b.finishLogin(login); err != nil {
			return err
		}
		b.proven = true
		b.o.passed(StepAuth)
	}
	return b.readTail()
}

// requestTail queues what follows the login.
func (b *bootstrap) requestTail() error {
	b.tail = true
	if b.o.Bucket != "" {
		if err := b.request(memd.OpSelectBucket, []byte(b.o.Bucket), nil); err != nil {
			return err
		}
	}
	if b.o.WantConfig {
		return b.request(memd.OpGetClusterConfig, nil, nil)
	}
	return nil
}

func (b *bootstrap) readHead() error {
	p, err := b.next(StepHello, memd.OpHello)
	if err != nil {
		return err
	}
	switch p.Status {
	case memd.StatusSuccess:
		if b.info.Features, err = memd.ParseFeatures(p.Value); err != nil {
			return err
		}
	case memd.StatusUnknownCommand, memd.StatusNotSupported: // it knows no features, and every feature is optional
	default: // its features are not known; an invalid argument or a temporary failure says nothing of them
		return b.refused(p, cberr.FeatureNotAvailable)
	}
	b.o.passed(StepHello)
	if p, err = b.next(StepErrorMap, memd.OpGetErrorMap); err != nil {
		return err
	}
	if p.Status == memd.StatusSuccess {
		b.info.ErrorMap = b.keep(p.Value)
	}
	return nil
}

// keep gives the last answer's value in memory of its own.
func (b *bootstrap) keep(value []byte) []byte {
	if b.owned {
		return value
	}
	return slices.Clone(value)
}

func (b *bootstrap) readTail() error {
	if b.o.Bucket != "" {
		p, err := b.next(StepSelectBucket, memd.OpSelectBucket)
		if err != nil {
			return err
		}
		switch p.Status {
		case memd.StatusSuccess:
			b.o.passed(StepSelectBucket)
		case memd.StatusAccess:
			return b.refused(p, cberr.BucketAccess)
		default: // absent for a user who may open it, warming up, too many connections: all of it may pass
			return b.refused(p, cberr.BucketNotFound)
		}
	}
	if !b.o.WantConfig {
		return nil
	}
	p, err := b.next(StepConfig, memd.OpGetClusterConfig)
	if err != nil {
		return err
	}
	b.info.NoConfig = b.givesNone(p.Status)
	if p.Status == memd.StatusSuccess && len(p.Value) > 0 {
		b.info.Config = b.keep(p.Value)
	}
	return nil
}

// givesNone reports whether a status says that the node has no maps to give over this protocol. Without a bucket that
// is also the answer of servers before 6.5. A map that is absent yet (0x01) is another matter: it comes later.
func (b *bootstrap) givesNone(st memd.Status) bool {
	switch st {
	case memd.StatusUnknownCommand, memd.StatusNotSupported:
		return true
	case memd.StatusNoBucket, memd.StatusAccess:
		return b.o.Bucket == ""
	}
	return false
}

// refused makes the error of a step that was answered with a failure.
func (b *bootstrap) refused(p *memd.Packet, kind *cberr.Kind) error {
	e := &ConnectError{Addr: b.addr, Bucket: b.o.Bucket, Step: b.step, Answered: true, Status: p.Status, Kind: kind}
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

// bare is the dialogue with a plain memcached server, which may want SASL and nothing else.
func (b *bootstrap) bare() error {
	login, err := b.newLogin()
	if err != nil || login == nil {
		return err
	}
	if err := b.request(memd.OpSASLListMechs, nil, nil); err != nil {
		return err
	}
	if err := b.send(); err != nil {
		return err
	}
	if err := b.readMechanisms(); err != nil {
		return err
	}
	if !slices.Contains(b.mechs, login.wire) {
		other, err := b.otherLogin(login)
		if err != nil {
			return err
		}
		if other != nil {
			login = other
		}
	}
	if err := b.auth(login); err != nil {
		return err
	}
	if err := b.send(); err != nil {
		return err
	}
	return b.readLogin(login, false)
}

func (b *bootstrap) readMechanisms() error {
	p, err := b.next(StepMechanisms, memd.OpSASLListMechs)
	if err != nil {
		return err
	}
	if p.Status == memd.StatusSuccess {
		for name := range strings.FieldsSeq(string(p.Value)) {
			if len(b.mechs) < maxMechanisms {
				b.mechs = append(b.mechs, name)
			}
		}
	}
	return nil
}
