package core

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/retry"
)

// Bootstrap says over which protocol cluster maps come.
type Bootstrap string

// Ways to get cluster maps.
const (
	BootstrapBoth Bootstrap = "both" // over key-value connections, and over HTTP where those bring none
	BootstrapKV   Bootstrap = "cccp" // over key-value connections only
	BootstrapHTTP Bootstrap = "http" // over HTTP only
)

// MapsOverHTTP are the settings of cluster maps that come over HTTP: of memcached buckets, of servers that give none
// over key-value connections or cannot be connected to, and where Bootstrap says so. Its zero value has the defaults.
type MapsOverHTTP struct {
	Timeout      time.Duration // of one map that is asked for, and of a stream's beginning; 0 means 5 s
	IdleTimeout  time.Duration // a stream is begun anew that has brought nothing for so long; 0 means 5 min
	RedialPeriod time.Duration // a stream is begun anew that is so old; 0 means never
	RetryMax     time.Duration // the longest pause after all nodes were asked in vain; 0 means 10 s
}

// The first pause after all nodes were asked in vain: of those that are known to give maps in no other way, and of
// those that cannot be connected to, which are dialled all the time anyway.
const (
	sourcePause   = 100 * time.Millisecond
	fallbackPause = 5 * time.Second
)

// mapSource gets a bucket's maps over HTTP, as long as they come in no other way. It is a dispatch.Source. Its
// goroutine is the bucket's, which ends it; while a stream is listened to there is one more.
type mapSource struct {
	b    *Bucket
	kick chan struct{} // a node gives no maps
	soon chan struct{} // there are new credentials

	mu     sync.Mutex
	trying bool
	asked  bool // a node has said that it gives no maps
	signs  int  // how often one has
	last   error
	stop   func()                   // ends what is asked for; nil before the first round
	tracks map[string]*health.Track // of the addresses that were asked
}

func (b *Bucket) newSource() *mapSource {
	s := &mapSource{
		b: b, kick: make(chan struct{}, 1), soon: make(chan struct{}, 1), tracks: map[string]*health.Track{},
	}
	cfg := &b.c.cfg
	s.trying = cfg.Maps.Bootstrap == BootstrapHTTP || len(cfg.Seeds.Hosts) == 0 && cfg.Maps.Bootstrap != BootstrapKV
	return s
}

// State implements dispatch.Source.
func (s *mapSource) State() (last error, trying bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.trying
}

// Needed implements dispatch.Source.
func (s *mapSource) Needed() {
	if s.b.c.cfg.Maps.Bootstrap == BootstrapKV {
		return
	}
	s.mu.Lock()
	if !s.asked && s.last == nil {
		s.trying = true
	}
	s.asked = true
	s.signs++
	s.mu.Unlock()
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// needed says whether maps have to come over HTTP as things stand: where nodes give none over connections, and where
// none of them can be connected to.
func (s *mapSource) needed() bool {
	cfg := &s.b.c.cfg
	switch cfg.Maps.Bootstrap {
	case BootstrapHTTP:
		return true
	case BootstrapKV:
		return false
	case BootstrapBoth:
	}
	now := s.b.router.Reach()
	switch {
	case now.Connected && now.Gives:
		return false
	case now.Connected && !now.Barren, len(cfg.Seeds.Hosts) == 0: // there is no other way
		return true
	}
	return (now.Failed || now.Barren) && (now.Proven || s.b.c.showsNothing()) && len(s.addresses()) > 0
}

// fallsBack reports whether maps are asked for over HTTP only because no node can be connected to.
func (s *mapSource) fallsBack() bool {
	cfg := &s.b.c.cfg
	return cfg.Maps.Bootstrap == BootstrapBoth && len(cfg.Seeds.Hosts) > 0 && !s.b.router.Reach().Connected
}

// run gets maps while they are needed.
func (s *mapSource) run(ctx context.Context) {
	longest := s.b.c.cfg.Maps.OverHTTP.RetryMax
	pause := retry.Exponential(sourcePause, longest, 2)
	fallback := retry.Exponential(min(fallbackPause, longest), longest, 2)
	for step := 0; ctx.Err() == nil; {
		changed, before := s.b.router.Changed(), s.signed()
		if !s.needed() {
			s.done(ctx, before)
			select {
			case <-ctx.Done():
			case <-changed:
			case <-s.kick:
			}
			continue
		}
		s.begins()
		began := time.Now()
		if s.round(ctx) && time.Since(began) >= time.Second {
			step = 0 // a stream that ends at once is no better than none
		}
		d := pause(step, 0)
		if s.fallsBack() {
			d = fallback(step, 0)
		}
		s.pause(ctx, d/2+time.Duration(s.b.c.cfg.Retry.JitterSource()*float64(d/2)))
		step++
	}
	s.done(ctx, 0)
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// pause waits for d, or for hurry. Failures are forgotten as soon as maps are not needed over HTTP: they are no reason
// for what happens to calls later.
func (s *mapSource) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		changed, before := s.b.router.Changed(), s.signed()
		if !s.needed() {
			s.done(ctx, before)
		}
		select {
		case <-t.C:
			return
		case <-s.soon:
			return
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// begins makes calls that need a map wait for the first attempt over HTTP.
func (s *mapSource) begins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trying = s.trying || s.last == nil && s.b.router.Snapshot() == nil
}

// signed is how often a node has said that it gives no maps.
func (s *mapSource) signed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signs
}

// done forgets the failures of the time when maps were needed over HTTP. It does not when a node has said meanwhile
// that it gives none, so that signed is not signs any more: calls wait for the source then, until ctx, the bucket's,
// has ended.
func (s *mapSource) done(ctx context.Context, signs int) {
	s.mu.Lock()
	if s.signs != signs && ctx.Err() == nil {
		s.mu.Unlock()
		return
	}
	tried := s.trying
	s.trying, s.asked, s.last = false, false, nil
	tracks := s.tracks
	s.tracks = map[string]*health.Track{}
	s.mu.Unlock()
	for _, t := range tracks {
		t.Leave()
	}
	if tried {
		s.b.router.SourceChanged()
	}
}

// track is what Health keeps of an address.
func (s *mapSource) track(addr string) *health.Track {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tracks[addr]
	if t == nil {
		t = s.b.c.health.TrackMaps(s.b.name, addr)
		s.tracks[addr] = t
	}
	return t
}

// keep forgets all addresses but those.
func (s *mapSource) keep(addrs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for addr, t := range s.tracks {
		if !slices.Contains(addrs, addr) {
			t.Leave()
			delete(s.tracks, addr)
		}
	}
}

// hurry ends a pause and what is asked for: there are new credentials. What was refused to the former ones is
// forgotten.
func (s *mapSource) hurry() {
	s.mu.Lock()
	if handshake.Refuses(s.last) {
		s.last, s.trying = nil, s.b.router.Snapshot() == nil
	}
	stop := s.stop
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
	select {
	case s.soon <- struct{}{}:
	default:
	}
}

// round asks one node after the other until one has brought something, or there are other credentials or TLS has been
// turned on or off: the addresses may be of no use any more. It is false when all were asked in vain.
func (s *mapSource) round(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.stop = cancel
	s.mu.Unlock()
	generation := s.b.c.logins.newest() // renewed later, they end the round
	addrs := s.addresses()
	if len(addrs) == 0 {
		s.fails(ctx, "", errNoHTTP)
		return false
	}
	s.keep(addrs)
	start := int(s.b.c.cfg.Retry.JitterSource() * float64(len(addrs)))
	for i := range addrs {
		addr := addrs[(start+i)%len(addrs)]
		some, err := s.listen(ctx, addr, generation)
		if ctx.Err() != nil || some || !s.needed() || s.b.c.logins.newest() != generation {
			return true
		}
		s.fails(ctx, addr, err)
	}
	return false
}

var errNoHTTP = errors.New("no address is known that gives cluster maps over HTTP: name one as http://host:port")

// addresses are the management services of the map's nodes, and behind them those of the configuration and of the nodes
// that are connected to, or were to be.
func (s *mapSource) addresses() []string {
	var addrs []string
	if m := s.b.router.Snapshot(); m != nil {
		for _, e := range m.Endpoints(topology.Management, s.b.router.Network(), s.b.c.encrypted()) {
			addrs = append(addrs, e.Addr)
		}
	}
	hosts := slices.Clone(s.b.c.ofKind(s.b.c.cfg.Seeds.HTTPHosts))
	for _, n := range s.b.router.Status() { // what an SRV record has named, too
		if mgmt, ok := management(n.Addr, s.b.c.encrypted()); ok {
			hosts = append(hosts, mgmt)
		}
	}
	for _, a := range hosts {
		if !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// mapPaths are where a node gives maps: the terse form first, then that of servers before 2.5.
type mapPaths struct{ once, stream []string }

func (s *mapSource) paths() mapPaths {
	if s.b.name == "" {
		return mapPaths{[]string{"/pools/default/nodeServices"}, []string{"/pools/default/nodeServicesStreaming"}}
	}
	return mapPaths{
		[]string{httpsvc.Path("pools", "default", "b", s.b.name), httpsvc.Path("pools", "default", "buckets",
			s.b.name)},
		[]string{httpsvc.Path("pools", "default", "bs", s.b.name), httpsvc.Path("pools", "default", "bucketsStreaming",
			s.b.name)},
	}
}

// listen takes maps from one node's stream until it ends, or for a while from a node that has no streams. The first map
// is asked for by itself, because a stream may be kept back by what is between.
func (s *mapSource) listen(ctx context.Context, addr string, generation uint64) (some bool, err error) {
	paths := s.paths()
	if s.b.router.Snapshot() == nil {
		if err := s.once(ctx, addr, paths.once, generation); err != nil {
			return false, err
		}
		some = true
	}
	cfg := &s.b.c.cfg.Maps.OverHTTP
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	if cfg.RedialPeriod > 0 {
		defer time.AfterFunc(cfg.RedialPeriod, cancel).Stop()
	}
	idle := time.AfterFunc(cfg.Timeout, cancel)
	defer idle.Stop()
	encryption := s.b.c.tls.Load()
	body, err := s.get(streaming, addr, paths.stream, generation)
	if err == nil {
		defer body.Close()
	}
	if !s.needed() { // a node has been connected to meanwhile
		return true, nil
	}
	if err != nil {
		if !some && s.once(ctx, addr, paths.once, generation) != nil {
			return false, err
		}
		sleep(ctx, s.b.c.cfg.Maps.PollInterval)
		return true, nil
	}
	stop := make(chan struct{})
	defer close(stop)
	s.b.wg.Go(func() { s.watch(stop, encryption, cancel) })
	maps := &mapReader{r: body, limit: s.b.c.cfg.Limits.Map, alive: func() { idle.Reset(cfg.IdleTimeout) }}
	for {
		raw, err := maps.next()
		if err != nil {
			return some && !errors.Is(err, errMapSize), s.failure(addr, generation, err)
		}
		if err := s.take(ctx, addr, raw); err != nil && s.b.router.Snapshot() == nil {
			return false, err // another node may have one that can be used
		}
		some = true      // with a map that works the next one is waited for, whatever this one is
		if !s.needed() { // the map may have brought the nodes that give the next ones
			return true, nil
		}
	}
}

// take gives a map to the router. The error says why the router does not use it.
func (s *mapSource) take(ctx context.Context, addr string, raw []byte) error {
	if err := s.b.router.Take(ctx, raw, addr); err != nil {
		return err
	}
	s.works(addr)
	return nil
}

// watch cancels the stream that is listened to as soon as maps are not needed over HTTP any more, or when there are
// other settings of TLS than it was begun with.
func (s *mapSource) watch(stop <-chan struct{}, encryption *tls.Config, cancel func()) {
	for {
		changed := s.b.router.Changed()
		if !s.needed() || s.b.c.tls.Load() != encryption {
			cancel()
			return
		}
		select {
		case <-stop:
			return
		case <-changed:
		}
	}
}

// once asks a node for one map.
func (s *mapSource) once(ctx context.Context, addr string, paths []string, generation uint64) error {
	ctx, cancel := context.WithTimeout(ctx, s.b.c.cfg.Maps.OverHTTP.Timeout)
	defer cancel()
	body, err := s.get(ctx, addr, paths, generation)
	if err != nil {
		return err
	}
	defer body.Close()
	raw, err := io.ReadAll(io.LimitReader(body, int64(s.b.c.cfg.Limits.Map)+1))
	if err == nil && len(raw) > s.b.c.cfg.Limits.Map {
		err = errMapSize
	}
	if err != nil {
		return s.failure(addr, generation, err)
	}
	return s.take(ctx, addr, raw)
}

// refresh asks any node for a newer map at once.
func (s *mapSource) refresh(ctx context.Context) {
	generation := s.b.c.logins.newest()
	for _, addr := range s.addresses() {
		if s.once(ctx, addr, s.paths().once, generation) == nil {
			return
		}
	}
}

// get gives the body of the first of the paths that the node knows.
func (s *mapSource) get(ctx context.Context, addr string, paths []string, generation uint64) (io.ReadCloser, error) {
	status, track := 0, s.track(addr)
	for _, path := range paths {
		var body io.ReadCloser
		var err error
		if status, body, err = s.b.c.http.Get(ctx, addr, path); err != nil {
			return nil, s.failure(addr, generation, err)
		}
		track.Passed(handshake.StepTLS)
		if status != http.StatusUnauthorized {
			track.Passed(handshake.StepAuth)
		}
		if status == http.StatusOK {
			track.Passed(handshake.StepHTTP)
			return body, nil
		}
		_ = body.Close()
		if status != http.StatusNotFound {
			break
		}
	}
	return nil, s.failure(addr, generation, httpStatusError(status))
}

// fails notes why the last attempt failed, for calls that wait for a map and for reports.
func (s *mapSource) fails(ctx context.Context, addr string, err error) {
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	s.trying, s.last = false, err
	s.mu.Unlock()
	s.track(addr).Down()
	s.track(addr).Failed(err)
	s.b.c.log.Info(ctx, observe.MsgConnectFailed, slog.String(observe.KeyEndpoint, addr), slog.Any(observe.KeyCause,
		err))
	s.b.router.SourceChanged()
}

// works notes that an address has given a map: its last failure is forgotten.
func (s *mapSource) works(addr string) {
	s.mu.Lock()
	s.last = nil
	s.mu.Unlock()
	s.track(addr).Up()
}
