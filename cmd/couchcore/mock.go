package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/control"
	"github.com/couchcore/couchcore/mock/couchbasemock"
	"github.com/couchcore/couchcore/mock/viewjs"
)

type mockCmd struct {
	Nodes            int      `default:"3" help:"How many nodes (default: 3)."`
	Replicas         int      `default:"1" help:"How many replicas (default: 1)."`
	VBuckets         int      `name:"vbuckets" default:"1024" help:"How many vbuckets (default: 1024)."`
	Bucket           []string `placeholder:"NAME[:TYPE]" help:"A bucket, of type couchbase, ephemeral or memcached; may be repeated (default: default)."`
	Username         string   `default:"Administrator" help:"The administrator (default: Administrator)."`
	Password         string   `default:"password" help:"The administrator's password (default: password)."`
	Port             int      `help:"The first node's management port; each node takes fourteen ports from there on. 0 takes free ports (default: 0)."`
	ServerVersion    []string `placeholder:"VERSION" help:"The server version that nodes are of, as 7.6 or 7.6.2: one for all, or one for each (default: 8.0)."`
	TLS              bool     `name:"tls" help:"Offer TLS ports too (default: no)."`
	HarakiriMonitor  string   `placeholder:"HOST:PORT" help:"Connect there, tell the management port, obey control commands, and end when that connection ends."`
	DefaultPorts     bool     `help:"Give the first node the ports that a server has: 8091 to 8096, 11210, and with --tls 18091 to 18096, 11207; other nodes take free ones (default: no)."`
	CouchbaseMock    bool     `name:"couchbasemock" help:"As the first flag: take the rest of the line as CouchbaseMock's command line, --buckets name:password:type and so on (default: no)."`
	Gocaves          bool     `name:"gocaves" help:"As the first flag: take the rest of the line as gocaves' command line, --control-port=N and so on (default: no)."`
	Control          string   `default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Where the control API listens, a loopback address; port 0 takes a free one (default: 127.0.0.1:0)."`
	Console          bool     `help:"Serve a page at /console/ of the control API that shows nodes, vbuckets, requests and connections, with buttons for faults and topology (default: no)."`
	Setup            string   `placeholder:"FILE|JSON" help:"What else the cluster begins with, as a JSON object or a file of one: services, versions and users of their own and so on, see docs/testing.md."`
	Fixtures         []string `placeholder:"FILE|DIR" help:"Load data from a file or a folder, see docs/testing.md; may be repeated. The control API can load files of the first folder again."`
	Frames           int      `default:"16384" help:"How many requests the log of frames keeps, and how many mutations each bucket's log of them (default: 16384)."`
	Journal          string   `placeholder:"FILE" help:"Append a line of JSON there for each request for a document and each mutation."`
	ExitOnStdinClose bool     `help:"End when standard input ends (default: no)."`
}

// mockReady is the line that says that the cluster is there.
type mockReady struct {
	ConnectionString    string   `json:"connection_string"`
	TLSConnectionString string   `json:"tls_connection_string"`
	CAFile              string   `json:"ca_file"`
	Management          []string `json:"management"`
	ControlURL          string   `json:"control"`
	ControlAPI          string   `json:"control_api"`
	Console             string   `json:"console"` // empty without
	Username            string   `json:"username"`
	Password            string   `json:"password"`
	Buckets             []string `json:"buckets"`
}

// Run implements the command.
func (c *mockCmd) Run(a *app) error {
	opts, names, err := c.options()
	if err != nil {
		return err
	}
	if c.Journal != "" {
		f, err := os.OpenFile(c.Journal, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return usagef("mock: --journal: %v", err)
		}
		defer func() { _ = f.Close() }() // after the cluster, which writes it
		opts = append(opts, mock.Journal(f))
	}
	defer limitGarbage()()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	m, err := mock.New(opts...)
	if err != nil {
		return usagef("%v", err)
	}
	m.LimitFrameLog(c.Frames)
	err = c.serve(ctx, a, m, names)
	return errors.Join(err, m.Close())
}

func (c *mockCmd) options() ([]mock.Option, []string, error) {
	opts := []mock.Option{
		mock.Ports(c.Port),
		mock.Nodes(c.Nodes), mock.Replicas(c.Replicas), mock.VBuckets(c.VBuckets), mock.User(c.Username, c.Password),
		mock.Views(viewjs.New(viewjs.Options{})), mock.RecordFrames(),
	}
	if c.Frames < 1 {
		return nil, nil, usagef("mock: --frames: %d, want 1 or more", c.Frames)
	}
	if c.DefaultPorts {
		opts = append(opts, mock.DefaultPorts())
	}
	if c.TLS {
		opts = append(opts, mock.TLS())
	}
	switch len(c.ServerVersion) {
	case 0:
	case 1:
		opts = append(opts, mock.Version(c.ServerVersion[0]))
	case c.Nodes:
		for i, v := range c.ServerVersion {
			opts = append(opts, mock.NodeVersion(i, v))
		}
	default:
		return nil, nil, usagef("mock: %d times --server-version for %d nodes", len(c.ServerVersion), c.Nodes)
	}
	if c.Setup != "" {
		setup, err := readSetup(c.Setup)
		if err != nil {
			return nil, nil, usagef("mock: --setup: %v", err)
		}
		more, names, err := setup.options()
		switch {
		case err != nil:
			return nil, nil, usagef("mock: --setup: %v", err)
		case names != nil && len(c.Bucket) > 0:
			return nil, nil, usagef("mock: --setup has buckets, and --bucket is given too")
		}
		opts = append(opts, more...)
		if names != nil {
			return opts, names, nil
		}
	}
	buckets := c.Bucket
	if len(buckets) == 0 {
		buckets = []string{mock.DefaultBucket}
	}
	var names []string
	for _, b := range buckets {
		name, kind, _ := strings.Cut(b, ":")
		option, err := mock.KindOfBucket(kind)
		if err != nil {
			return nil, nil, usagef("%v", err)
		}
		opts, names = append(opts, mock.Bucket(name, 0, option)), append(names, name)
	}
	return opts, names, nil
}

// load puts the fixtures of the files into the cluster, and limits the logs of mutations. The first folder is what the
// control API may load from.
func (c *mockCmd) load(m *mock.Cluster) (fs.FS, error) {
	var folder fs.FS
	for _, name := range c.Fixtures {
		info, err := os.Stat(name)
		if err != nil {
			return nil, usagef("mock: --fixtures: %v", err)
		}
		dir, file := name, "."
		if !info.IsDir() {
			dir, file = filepath.Split(filepath.Clean(name))
		}
		fsys := os.DirFS(cmp.Or(dir, "."))
		if info.IsDir() && folder == nil {
			folder = fsys
		}
		list, err := mock.ReadFixtures(fsys, file)
		if err != nil {
			return nil, usagef("%v", err)
		}
		for _, f := range list {
			if err := m.Load(f); err != nil {
				return nil, usagef("%v", err)
			}
		}
	}
	for _, bucket := range m.Buckets() {
		if err := m.LimitApplyLog(bucket, cmp.Or(c.Frames, couchbaseMockFrames)); err != nil {
			return nil, fmt.Errorf("mock: %w", err)
		}
	}
	return folder, nil
}

// serve says that the cluster is ready and waits for the end.
func (c *mockCmd) serve(ctx context.Context, a *app, m *mock.Cluster, buckets []string) error {
	commands, err := couchbasemock.Attach(m)
	if err != nil {
		return fmt.Errorf("mock: %w", err)
	}
	folder, err := c.load(m)
	if err != nil {
		return err
	}
	api, err := control.Listen(m, c.Control, control.Options{Fixtures: folder, Console: c.Console})
	if err != nil {
		return usagef("mock: %v", err)
	}
	defer func() { _ = api.Close() }() // what is under way is not waited for any longer
	ready := mockReady{
		ConnectionString: m.ConnString(), TLSConnectionString: m.TLSConnString(), Username: c.Username,
		Password: c.Password,
		Buckets:  buckets, ControlAPI: api.URL(),
	}
	if c.Console {
		ready.Console = api.URL() + "/console/"
	}
	for _, n := range m.Nodes() {
		ready.Management = append(ready.Management, "http://"+n.ManagementAddr())
	}
	ready.ControlURL = ready.Management[0] + "/mock/"
	if c.TLS {
		file, err := writeCA(m.CA())
		if err != nil {
			return err
		}
		defer func() { _ = os.Remove(file) }()
		ready.CAFile = file
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if c.HarakiriMonitor != "" {
		conn, err := dialMonitor(ctx, c.HarakiriMonitor)
		if err != nil {
			return fmt.Errorf("mock: %w", err)
		}
		served := make(chan struct{})
		defer func() { <-served }()
		defer func() { _ = conn.Close() }()
		go func() { // until the monitor goes, or this function closes the connection
			defer close(served)
			_ = commands.Serve(conn)
			cancel(io.EOF)
		}()
	}
	if err := a.emit(ready); err != nil {
		return err
	}
	if c.ExitOnStdinClose {
		go endWith(a.stdin, cancel)
	}
	<-ctx.Done()
	return nil
}

// endWith reads r to its end, which ends the cluster.
func endWith(r io.Reader, cancel context.CancelCauseFunc) {
	_, _ = io.Copy(io.Discard, r)
	cancel(io.EOF)
}

func writeCA(pem []byte) (string, error) {
	f, err := os.CreateTemp("", "couchcore-ca-*.pem")
	if err != nil {
		return "", fmt.Errorf("mock: %w", err)
	}
	_, err = f.Write(pem)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("mock: %w", err)
	}
	return f.Name(), nil
}

// dialMonitor connects to the process that watches this one, trying every 100 ms.
func dialMonitor(ctx context.Context, monitor string) (net.Conn, error) {
	if _, _, err := net.SplitHostPort(monitor); err != nil {
		return nil, usagef("--harakiri-monitor: %v", err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", monitor)
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}
