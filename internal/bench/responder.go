package bench

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// granted are the features that the responder knows. Neither compression nor server durations: the clients differ in
// what these cost them.
var granted = [...]memd.Feature{
	memd.FeatureXattr, memd.FeatureXError, memd.FeatureSelectBucket, memd.FeatureJSON, memd.FeatureMutationSeqno,
	memd.FeatureAltRequest, memd.FeatureUnorderedExecution, memd.FeatureSyncReplication, memd.FeatureCollections,
}

// mode is how the responder behaves; it is the name of the bucket that a client selects.
type mode string

const (
	modeCleartext mode = bucketName
	modeShortHold mode = "hold-short" // each answer is held back for shortHold
	modeLongHold  mode = "hold-long"  // each answer is held back for longHold
	modeMoved     mode = "moved"      // every other request for a key is answered with the map that is already known
	modeMute      mode = "mute"       // gets and upserts are not answered
	modePaced     mode = "paced"      // paceRate answers per second and node
	modeQuery     mode = "query"      // the map names a query service
)

// The round trips that the responder plays.
const (
	shortHold = 200 * time.Microsecond
	longHold  = time.Millisecond
)

// hold is how long a mode holds answers back.
func (m mode) hold() time.Duration {
	switch m {
	case modeShortHold:
		return shortHold
	case modeLongHold:
		return longHold
	default:
		return 0
	}
}

const (
	paceRate  = 100_000
	paceLag   = 5 * time.Millisecond // 500 requests that a server without work may answer at once
	readSize  = 256 << 10
	flushSize = 256 << 10
	pacedRead = 16 << 10
)

// responder answers as fast as it can: it parses all that one read has brought and writes all answers at once. It is
// no mock: it keeps no documents, and its Get is a copy of prepared bytes.
type responder struct {
	gets [len(sizes)][]byte // prepared answers, by the key's class
	set  []byte

	requests, misrouted atomic.Int64
}

// responderStats are what the responder has done so far.
type responderStats struct {
	CPU       time.Duration `json:"cpu_ns"`
	Requests  int64         `json:"requests"`
	Misrouted int64         `json:"misrouted"`
}

func newResponder() *responder {
	r := &responder{}
	for class, size := range sizes {
		p := memd.Packet{
			Magic: memd.MagicRes, Opcode: memd.OpGet, CAS: 0x1122334455667788, Extras: make([]byte, 4),
			Value: value(size),
		}
		r.gets[class], _ = p.AppendTo(nil) // its lengths fit
	}
	extras := binary.BigEndian.AppendUint64(nil, 0x0102030405060708)
	p := memd.Packet{
		Magic: memd.MagicRes, Opcode: memd.OpSet, CAS: 0x1122334455667788,
		Extras: binary.BigEndian.AppendUint64(extras, 1),
	}
	r.set, _ = p.AppendTo(nil)
	return r
}

// runResponder is the responder's process: it prints where it listens, then answers each line of in with its counts,
// and ends with in.
func runResponder(in io.Reader, out io.Writer) error {
	r := newResponder()
	where, closeAll, err := r.listen()
	if err != nil {
		return err
	}
	defer closeAll()
	enc := json.NewEncoder(out)
	if err := enc.Encode(where); err != nil {
		return err
	}
	for s := bufio.NewScanner(in); s.Scan(); {
		if err := enc.Encode(responderStats{processCPU(), r.requests.Load(), r.misrouted.Load()}); err != nil {
			return err
		}
	}
	return nil
}

// session is one connection. Its goroutine reads and writes; where answers are held back another one writes.
type session struct {
	r     *responder
	nc    net.Conn
	node  int
	nodes []node
	mode  mode

	collections bool
	moved       [len(sizes)][keyCount]bool // the key's last request was refused on purpose
	out         []byte
	held        chan heldBatch
	pace        *pacer // of the node
	alarm       *alarm // of modePaced
	count       uint
	config      []byte
}

type heldBatch struct {
	due time.Time
	buf []byte
}

func (s *session) serve() {
	defer func() {
		if s.held != nil {
			close(s.held)
		}
		if s.alarm != nil {
			s.alarm.close()
		}
	}()
	in := make([]byte, readSize)
	have := 0
	for {
		limit := len(in)
		if s.mode == modePaced {
			limit = max(pacedRead, have+1)
		}
		n, err := s.nc.Read(in[have:limit])
		if err != nil {
			return
		}
		have += n
		used, done, err := s.requests(in[:have])
		if err != nil {
			return
		}
		s.r.requests.Add(int64(done))
		if s.alarm != nil {
			if wait := s.pace.take(done); wait > 0 && s.alarm.sleep(wait) != nil {
				return
			}
		}
		if s.flush() != nil {
			return
		}
		have = copy(in, in[used:have])
	}
}

// pacer is the capacity of a node in modePaced, whatever connections it has.
type pacer struct {
	mu   sync.Mutex
	free time.Time // when the next answer may leave
}

// take says how long to wait until the server that this plays would have worked off done requests. What a session was
// woken up too late is made up for: otherwise its capacity would depend on how busy the machine is.
func (p *pacer) take(done int) time.Duration {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if earliest := now.Add(-paceLag); p.free.Before(earliest) {
		p.free = earliest
	}
	p.free = p.free.Add(time.Duration(done) * time.Second / paceRate)
	return p.free.Sub(now)
}

// requests answers every whole request of in. It gives how many bytes and requests those were.
func (s *session) requests(in []byte) (used, done int, err error) {
	for len(in)-used >= memd.HeaderLen {
		b := in[used:]
		n := memd.HeaderLen + int(binary.BigEndian.Uint32(b[8:]))
		if n > readSize {
			return used, done, memd.ErrTooLarge
		}
		if n > len(b) {
			break
		}
		if err := s.request(b[:n]); err != nil {
			return used, done, err
		}
		used += n
		done++
		if len(s.out) >= flushSize && s.held == nil {
			if err := s.flush(); err != nil {
				return used, done, err
			}
		}
	}
	return used, done, nil
}

func (s *session) request(b []byte) error {
	switch op := memd.Opcode(b[1]); op {
	case memd.OpGet, memd.OpSet:
		return s.document(op, b)
	default:
		return s.other(op, b)
	}
}

// document answers a Get or an Upsert. One in 64 is checked for the vbucket and the node of its key.
func (s *session) document(op memd.Opcode, b []byte) error {
	keyEnd := memd.HeaderLen + int(b[4]) + int(b[3])
	keyAt := memd.HeaderLen + int(b[4])
	if b[0] == byte(memd.MagicReqExt) {
		keyAt += int(b[2])
		keyEnd += int(b[2])
	}
	if s.collections {
		keyAt++ // the default collection's id
	}
	if keyEnd > len(b) || keyEnd-keyAt != keyLen {
		return errOutOfStep
	}
	key := b[keyAt:keyEnd]
	class := int(key[0] - '0')
	if class >= len(sizes) {
		return errOutOfStep
	}
	if s.count++; s.count&63 == 0 {
		vb := binary.BigEndian.Uint16(b[6:])
		if vb != vbucketOf(key) || nodeOf(vb, len(s.nodes)) != s.node {
			s.r.misrouted.Add(1)
			return errOutOfStep
		}
	}
	switch s.mode {
	case modeMute:
		return nil
	case modeMoved:
		refused := &s.moved[class][keyNumber(key)%keyCount]
		if *refused = !*refused; *refused {
			return s.answer(op, memd.StatusNotMyVBucket, b, nil, s.clusterMap())
		}
	default:
	}
	at := len(s.out)
	if op == memd.OpGet {
		s.out = append(s.out, s.r.gets[class]...)
	} else {
		s.out = append(s.out, s.r.set...)
	}
	copy(s.out[at+12:at+16], b[12:16]) // the opaque
	return nil
}

// other answers what a client asks when it connects and when it polls.
func (s *session) other(op memd.Opcode, b []byte) error {
	var p memd.Packet
	if _, err := p.Parse(b, readSize); err != nil {
		return err
	}
	switch op {
	case memd.OpHello:
		return s.answer(op, memd.StatusSuccess, b, nil, s.grant(p.Value))
	case memd.OpGetErrorMap:
		return s.answer(op, memd.StatusSuccess, b, nil, []byte(`{"version":2,"revision":1,"errors":{}}`))
	case memd.OpSASLListMechs:
		return s.answer(op, memd.StatusSuccess, b, nil, []byte("PLAIN"))
	case memd.OpSelectBucket:
		return s.selectBucket(mode(p.Key), b)
	case memd.OpGetClusterConfig:
		return s.answer(op, memd.StatusSuccess, b, nil, s.clusterMap())
	case memd.OpSASLAuth, memd.OpNoop:
		return s.answer(op, memd.StatusSuccess, b, nil, nil)
	default:
		return s.answer(op, memd.StatusUnknownCommand, b, nil, nil)
	}
}

func (s *session) grant(asked []byte) []byte {
	want, err := memd.ParseFeatures(asked)
	if err != nil {
		return nil
	}
	var out []byte
	for _, f := range granted {
		if want.Has(f) {
			out = memd.AppendFeatures(out, f)
			s.collections = s.collections || f == memd.FeatureCollections
		}
	}
	return out
}

func (s *session) selectBucket(m mode, b []byte) error {
	switch m {
	case modeCleartext, modeShortHold, modeLongHold, modeMoved, modeMute, modePaced, modeQuery:
	default:
		return s.answer(memd.OpSelectBucket, memd.StatusKeyNotFound, b, nil, nil)
	}
	s.mode, s.config = m, nil
	var err error
	if m == modePaced && s.alarm == nil {
		if s.alarm, err = newAlarm(); err != nil {
			return err
		}
	}
	if m.hold() > 0 && s.held == nil {
		a, err := newAlarm()
		if err != nil {
			return err
		}
		s.held = make(chan heldBatch, 1<<14)
		go s.writeHeld(s.held, a)
	}
	return s.answer(memd.OpSelectBucket, memd.StatusSuccess, b, nil, nil)
}

func (s *session) answer(op memd.Opcode, st memd.Status, req, extras, val []byte) error {
	p := memd.Packet{
		Magic: memd.MagicRes, Opcode: op, Status: st, Opaque: binary.BigEndian.Uint32(req[12:]), Extras: extras,
		Value: val,
	}
	if len(val) > 0 && val[0] == '{' {
		p.Datatype = memd.DatatypeJSON
	}
	var err error
	s.out, err = p.AppendTo(s.out)
	return err
}

// flush writes what has been answered, or hands it to the goroutine that holds it back.
func (s *session) flush() error {
	if len(s.out) == 0 {
		return nil
	}
	if s.held != nil {
		s.held <- heldBatch{time.Now().Add(s.mode.hold()), s.out}
		s.out = nil
		return nil
	}
	_, err := s.nc.Write(s.out)
	if s.out = s.out[:0]; cap(s.out) > 4*flushSize {
		s.out = nil
	}
	return err
}

// writeHeld writes each batch when it is due. It ends with its channel, which the session closes.
func (s *session) writeHeld(batches <-chan heldBatch, a *alarm) {
	defer a.close()
	for h := range batches {
		if d := time.Until(h.due); d > 0 {
			_ = a.sleep(d) // a timer that does not work shows in the round trip
		}
		if _, err := s.nc.Write(h.buf); err != nil {
			s.nc.Close() // ends the reading side, too; what is left is taken and dropped
		}
	}
}

// clusterMap is the map of the session's cluster: all vbuckets, no replicas, as small as the clients accept it. One of
// them takes no map without management ports, so there is one, where nothing listens.
func (s *session) clusterMap() []byte {
	if s.config == nil {
		s.config = clusterMap(s.mode, s.nodes, s.node)
	}
	return s.config
}
