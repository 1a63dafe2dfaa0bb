package bench

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// granted are the features that the responder knows. Neither compression nor server durations: the clients differ in
// what these cost them. modePacked compresses all the same.
var granted = [...]memd.Feature{
	memd.FeatureXattr, memd.FeatureXError, memd.FeatureSelectBucket, memd.FeatureJSON, memd.FeatureMutationSeqno,
	memd.FeatureAltRequest, memd.FeatureUnorderedExecution, memd.FeatureSyncReplication, memd.FeatureCollections,
}

// mode is how the responder behaves; it is the name of the bucket that a client selects.
type mode string

const (
	modePlain   mode = bucketName
	modeHold    mode = "hold"    // each answer is held back for holdTime
	modeTmpFail mode = "tmpfail" // every other request for a key fails for the moment
	modeMoved   mode = "moved"   // every other request for a key is answered with the map that is already known
	modeMute    mode = "mute"    // gets and upserts are not answered
	modePaced   mode = "paced"   // paceRate answers per second and node
	modePacked  mode = "packed"  // documents come compressed
	modeAbsent  mode = "absent"  // there is no document
)

const (
	holdTime  = 500 * time.Microsecond
	paceRate  = 100_000
	paceLag   = 5 * time.Millisecond // 500 requests that a server without work may answer at once
	readSize  = 256 << 10
	flushSize = 256 << 10
	pacedRead = 16 << 10
)

// clusterSizes are the clusters that the responder plays, each with listeners of its own.
var clusterSizes = [...]int{1, 3, 20, 100}

// responder answers as fast as it can: it parses all that one read has brought and writes all answers at once. It is
// no mock: it keeps no documents, and its Get is a copy of prepared bytes.
type responder struct {
	gets   [len(sizes)][]byte // prepared answers, by the key's class
	packed [len(sizes)][]byte // the same, compressed
	set    []byte

	requests, reads, writes, misrouted atomic.Int64
}

// clusterPorts are the nodes of each cluster, as the responder tells its parent.
type clusterPorts map[string][]string

// responderStats are what the responder has done so far.
type responderStats struct {
	CPU       time.Duration `json:"cpu_ns"`
	Requests  int64         `json:"requests"`
	Reads     int64         `json:"reads"`
	Writes    int64         `json:"writes"`
	Misrouted int64         `json:"misrouted"`
}

func newResponder() *responder {
	r := &responder{}
	for class, size := range sizes {
		p := memd.Packet{Magic: memd.MagicRes, Opcode: memd.OpGet, CAS: 0x1122334455667788, Extras: make([]byte, 4), Value: value(size)}
		r.gets[class], _ = p.AppendTo(nil) // its lengths fit
		p.Datatype, p.Value = memd.DatatypeSnappy, packed(size)
		r.packed[class], _ = p.AppendTo(nil)
	}
	extras := binary.BigEndian.AppendUint64(nil, 0x0102030405060708)
	p := memd.Packet{Magic: memd.MagicRes, Opcode: memd.OpSet, CAS: 0x1122334455667788, Extras: binary.BigEndian.AppendUint64(extras, 1)}
	r.set, _ = p.AppendTo(nil)
	return r
}

// runResponder is the responder's process: it prints its addresses, then answers each line of in with its counts, and
// ends with in.
func runResponder(in io.Reader, out io.Writer) error {
	r := newResponder()
	ports, closeAll, err := r.listen()
	if err != nil {
		return err
	}
	defer closeAll()
	enc := json.NewEncoder(out)
	if err := enc.Encode(ports); err != nil {
		return err
	}
	for s := bufio.NewScanner(in); s.Scan(); {
		err := enc.Encode(responderStats{processCPU(), r.requests.Load(), r.reads.Load(), r.writes.Load(), r.misrouted.Load()})
		if err != nil {
			return err
		}
	}
	return nil
}

// listen opens all clusters. The sessions end with their sockets, and the sockets with the process or with closeAll.
func (r *responder) listen() (clusterPorts, func(), error) {
	all := clusterPorts{}
	var open []net.Listener
	var wg sync.WaitGroup
	var conns sync.Map
	closeAll := func() {
		for _, l := range open {
			l.Close()
		}
		conns.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		wg.Wait()
	}
	for _, n := range clusterSizes {
		var addrs []string
		var ls []net.Listener
		for range n {
			l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // nothing to wait for on the loopback interface
			if err != nil {
				closeAll()
				return nil, nil, err
			}
			open, ls, addrs = append(open, l), append(ls, l), append(addrs, l.Addr().String())
		}
		all[strconv.Itoa(n)] = addrs
		for i, l := range ls {
			pace := &pacer{}
			wg.Go(func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					conns.Store(c, nil)
					wg.Go(func() {
						defer conns.Delete(c)
						defer c.Close()
						s := &session{r: r, nc: c, node: i, addrs: addrs, mode: modePlain, pace: pace}
						s.serve()
					})
				}
			})
		}
	}
	return all, closeAll, nil
}

// session is one connection. Its goroutine reads and writes; in modeHold another one writes.
type session struct {
	r     *responder
	nc    net.Conn
	node  int
	addrs []string
	mode  mode

	collections bool
	failed      [len(sizes)][keyCount]bool // the key's last request was failed on purpose
	out         []byte
	held        chan heldBatch
	pace        *pacer // of the node
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
		s.r.reads.Add(1)
		used, done, err := s.requests(in[:have])
		if err != nil {
			return
		}
		s.r.requests.Add(int64(done))
		if s.mode == modePaced {
			s.pace.wait(done)
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

// wait waits until the server that this plays would have worked off done requests. What it was woken up too late is made
// up for: otherwise its capacity would depend on how busy the machine is.
func (p *pacer) wait(done int) {
	now := time.Now()
	p.mu.Lock()
	if earliest := now.Add(-paceLag); p.free.Before(earliest) {
		p.free = earliest
	}
	p.free = p.free.Add(time.Duration(done) * time.Second / paceRate)
	wait := p.free.Sub(now)
	p.mu.Unlock()
	if wait > 0 {
		sleepExactly(wait)
	}
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
		if vb != vbucketOf(key) || nodeOf(vb, len(s.addrs)) != s.node {
			s.r.misrouted.Add(1)
			return errOutOfStep
		}
	}
	switch s.mode {
	case modeMute:
		return nil
	case modeTmpFail, modeMoved:
		if f := &s.failed[class][keyNumber(key)%keyCount]; !*f {
			*f = true
			if s.mode == modeTmpFail {
				return s.answer(op, memd.StatusTmpFail, b, nil, nil)
			}
			return s.answer(op, memd.StatusNotMyVBucket, b, nil, s.clusterMap())
		} else {
			*f = false
		}
	case modeAbsent:
		return s.answer(op, memd.StatusKeyNotFound, b, nil, nil)
	default:
	}
	at := len(s.out)
	switch {
	case op != memd.OpGet:
		s.out = append(s.out, s.r.set...)
	case s.mode == modePacked:
		s.out = append(s.out, s.r.packed[class]...)
	default:
		s.out = append(s.out, s.r.gets[class]...)
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
	case modePlain, modeHold, modeTmpFail, modeMoved, modeMute, modePaced, modePacked, modeAbsent:
	default:
		return s.answer(memd.OpSelectBucket, memd.StatusKeyNotFound, b, nil, nil)
	}
	s.mode, s.config = m, nil
	if m == modeHold && s.held == nil {
		s.held = make(chan heldBatch, 1<<14)
		go s.writeHeld(s.held)
	}
	return s.answer(memd.OpSelectBucket, memd.StatusSuccess, b, nil, nil)
}

func (s *session) answer(op memd.Opcode, st memd.Status, req, extras, val []byte) error {
	p := memd.Packet{
		Magic: memd.MagicRes, Opcode: op, Status: st, Opaque: binary.BigEndian.Uint32(req[12:]), Extras: extras, Value: val,
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
	s.r.writes.Add(1)
	if s.held != nil {
		s.held <- heldBatch{time.Now().Add(holdTime), s.out}
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
func (s *session) writeHeld(batches <-chan heldBatch) {
	for h := range batches {
		if d := time.Until(h.due); d > 0 {
			sleepExactly(d)
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
		s.config = clusterMap(string(s.mode), s.addrs, s.node)
	}
	return s.config
}

func clusterMap(bucket string, addrs []string, self int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `{"rev":1,"revEpoch":1,"name":%q,"uuid":"00000000000000000000000000000001","nodeLocator":"vbucket","nodes":[`, bucket)
	for i, a := range addrs {
		host, port, _ := net.SplitHostPort(a) // our own addresses
		fmt.Fprintf(&b, `%s{"hostname":"%s:8091","ports":{"direct":%s}}`, comma(i), host, port)
	}
	b.WriteString(`],"nodesExt":[`)
	for i, a := range addrs {
		host, port, _ := net.SplitHostPort(a)
		this := ""
		if i == self {
			this = `,"thisNode":true`
		}
		fmt.Fprintf(&b, `%s{"services":{"kv":%s,"mgmt":8091},"hostname":"%s"%s}`, comma(i), port, host, this)
	}
	b.WriteString(`],"bucketCapabilitiesVer":"","bucketCapabilities":["collections","durableWrite","cbhello","cccp","nodesExt","xattr"],` +
		`"vBucketServerMap":{"hashAlgorithm":"CRC","numReplicas":0,"serverList":[`)
	for i, a := range addrs {
		fmt.Fprintf(&b, `%s"%s"`, comma(i), a)
	}
	b.WriteString(`],"vBucketMap":[`)
	for vb := range vbuckets {
		fmt.Fprintf(&b, "%s[%d]", comma(vb), nodeOf(uint16(vb), len(addrs)))
	}
	b.WriteString("]}}")
	return []byte(b.String())
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}
