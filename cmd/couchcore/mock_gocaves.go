package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/gocaves"
	"github.com/couchcore/couchcore/mock/viewjs"
)

// arguments are the program's arguments. A program that is called gocaves, as gocbcore's and gocb's suites look for it,
// is the mock that speaks gocaves' protocol.
func arguments(argv []string) []string {
	if strings.HasPrefix(filepath.Base(argv[0]), "gocaves") {
		return append([]string{"mock", "--gocaves"}, argv[1:]...)
	}
	return argv[1:]
}

// gocaves runs mock clusters as gocaves' command line and its clients want them.
func (a *app) gocaves(args []string) error {
	line, err := gocaves.ParseArguments(args)
	if err != nil {
		return usagef("mock: %v", err)
	}
	if line.Help {
		_, err := fmt.Fprint(a.stdout, gocaves.HelpText())
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := gocaves.New(mock.Views(viewjs.New(viewjs.Options{})))
	switch {
	case line.MockOnly:
		err = a.gocavesAlone(ctx, s)
	case line.ControlPort != 0:
		err = serveGocaves(ctx, s, fmt.Sprintf("127.0.0.1:%d", line.ControlPort))
	default:
		err = listenGocaves(ctx, s, fmt.Sprintf("127.0.0.1:%d", line.ListenPort))
	}
	return errors.Join(err, s.Close())
}

// gocavesAlone starts one cluster, says where it is, and waits for the end.
func (a *app) gocavesAlone(ctx context.Context, s *gocaves.Server) error {
	m, err := s.Cluster()
	if err != nil {
		return fmt.Errorf("mock: %w", err)
	}
	if _, err = fmt.Fprintf(a.stderr, "{\"connstr\":%q}\n", m.ConnString()); err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, m.Close())
}

// serveGocaves connects to a client and serves it until it goes.
func serveGocaves(ctx context.Context, s *gocaves.Server, addr string) error {
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("mock: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = nc.Close() })() // reading ends with it
	defer func() { _ = nc.Close() }()
	if err := gocaves.Hello(nc); err != nil {
		return fmt.Errorf("mock: %w", err)
	}
	return s.Serve(nc)
}

// listenGocaves serves every client that connects, until the program ends.
func listenGocaves(ctx context.Context, s *gocaves.Server, addr string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return usagef("mock: %v", err)
	}
	var clients sync.WaitGroup
	defer clients.Wait()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		nc, err := l.Accept()
		if err != nil {
			return nil // the listener was closed
		}
		clients.Go(func() { // until the client goes, or the program ends
			defer context.AfterFunc(ctx, func() { _ = nc.Close() })()
			defer func() { _ = nc.Close() }()
			_ = s.Serve(nc) // what one client sends matters to no other
		})
	}
}
