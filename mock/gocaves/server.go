package gocaves

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/couchcore/couchcore/mock"
)

const maxCommand = 1 << 20 // bytes of one packet

// Server makes clusters for the clients that it serves. Its methods may be called from several goroutines at once.
type Server struct {
	options []mock.Option

	mu       sync.Mutex
	closed   bool
	clusters map[string]*mock.Cluster // by the id that a client has given
	runs     map[string]*run
}

// New returns a server whose clusters have these options beside gocaves' own: two nodes with all services, a bucket
// "default" with one replica, a memcached bucket "memd", of version 7.0.
func New(opts ...mock.Option) *Server {
	return &Server{options: opts, clusters: map[string]*mock.Cluster{}, runs: map[string]*run{}}
}

// Cluster starts a cluster as clients get them. The caller closes it.
func (s *Server) Cluster() (*mock.Cluster, error) {
	return mock.New(append([]mock.Option{
		mock.Nodes(2), mock.Version("7.0"), mock.Bucket("default", 0, mock.WithReplicas(1)),
		mock.Bucket("memd", 0, mock.Memcached()), mock.RecordFrames(),
	}, s.options...)...)
}

// Close ends all clusters. A client that is served has to be closed by the caller.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	all := make([]*mock.Cluster, 0, len(s.clusters))
	for _, c := range s.clusters {
		all = append(all, c)
	}
	for _, r := range s.runs {
		all = append(all, r.cluster)
		if r.test != nil && r.test.own != nil {
			all = append(all, r.test.own)
		}
	}
	s.clusters, s.runs = map[string]*mock.Cluster{}, map[string]*run{}
	s.mu.Unlock()
	var err error
	for _, c := range all {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Hello begins the conversation with a client that was connected to, rather than the other way round.
func Hello(nc net.Conn) error {
	_, err := nc.Write([]byte("{\"type\":\"hello\"}\x00"))
	return err
}

// Serve answers a client's packets, JSON objects with a zero byte behind each, until the connection ends, which is no
// error. A packet that is not known ends it, as with gocaves.
func (s *Server) Serve(nc net.Conn) error {
	packets := bufio.NewScanner(nc)
	packets.Buffer(make([]byte, 0, 4096), maxCommand)
	packets.Split(zeroEnded)
	for packets.Scan() {
		answer, err := s.answer(packets.Bytes())
		if err != nil {
			return err
		}
		b, _ := json.Marshal(answer) // texts
		if _, err := nc.Write(append(b, 0)); err != nil {
			return err
		}
	}
	if err := packets.Err(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func zeroEnded(data []byte, eof bool) (n int, packet []byte, err error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	if eof && len(data) > 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return 0, nil, nil
}

// command is what a client asks for.
type command struct {
	Type     string `json:"type"`
	ID       string `json:"id"`
	Run      string `json:"run"`
	Client   string `json:"client"`
	Test     string `json:"test"`
	Cluster  string `json:"cluster"`
	Amount   int64  `json:"amount_ms"`
	Name     string `json:"name"`
	Kind     string `json:"bucket_type"`
	Replicas int    `json:"replicas"`
}

type reply map[string]any

// answer executes a command. A failure leaves the answer's members empty, as gocaves does it; errors are for packets
// that nothing can be said to.
func (s *Server) answer(packet []byte) (reply, error) {
	var c command
	if err := json.Unmarshal(packet, &c); err != nil {
		return nil, fmt.Errorf("gocaves: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, net.ErrClosed
	}
	switch c.Type {
	case "createcluster":
		cluster, err := s.started(s.clusters[c.ID])
		if err == nil {
			s.clusters[c.ID] = cluster
		}
		return addresses("createdcluster", cluster), nil
	case "starttesting":
		return s.startTesting(&c), nil
	case "endtesting":
		return reply{"type": "endedtesting", "report": s.endTesting(&c)}, nil
	case "starttest":
		return s.startTest(&c), nil
	case "endtest":
		if r := s.runs[c.Run]; r != nil {
			r.endTest("")
		}
		return reply{"type": "endedtest", "Error": ""}, nil
	case "timetravel":
		s.travel(&c)
		return reply{"type": "timetravelled"}, nil
	case "addbucket":
		s.addBucket(&c)
		return reply{"type": "addedbucket"}, nil
	}
	return nil, fmt.Errorf("gocaves: no such packet: %q", c.Type)
}

// started is a new cluster in the place of an old one.
func (s *Server) started(old *mock.Cluster) (*mock.Cluster, error) {
	c, err := s.Cluster()
	if err == nil && old != nil {
		err = old.Close()
	}
	return c, err
}

// addresses is the answer that names a cluster; nil is one that did not start.
func addresses(kind string, c *mock.Cluster) reply {
	management, connstr := []string{}, ""
	if c != nil {
		connstr = c.ConnString()
		for _, n := range c.Nodes() {
			management = append(management, "http://"+n.ManagementAddr())
		}
	}
	return reply{"type": kind, "mgmt_addrs": management, "connstr": connstr}
}

// travel moves the time of a cluster, of a run's own, or of both.
func (s *Server) travel(c *command) {
	by := time.Duration(c.Amount) * time.Millisecond
	if cluster := s.clusters[c.Cluster]; cluster != nil {
		cluster.TimeTravel(by)
	}
	if r := s.runs[c.Run]; r != nil {
		r.cluster.TimeTravel(by)
	}
}

func (s *Server) addBucket(c *command) {
	cluster := s.clusters[c.Cluster]
	if cluster == nil {
		return
	}
	opts := []mock.BucketOption{mock.WithReplicas(c.Replicas)}
	if c.Kind == "memcached" {
		opts = []mock.BucketOption{mock.Memcached()}
	}
	_ = cluster.CreateBucket(c.Name, 0, opts...) // the protocol has no place for why it failed
}
