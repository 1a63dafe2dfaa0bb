package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/couchbasemock"
	"github.com/couchcore/couchcore/mock/viewjs"
)

const couchbaseMockFrames = 16384 // that the log keeps

// couchbaseMock runs a mock cluster as CouchbaseMock's command line describes it.
func (a *app) couchbaseMock(args []string) error {
	line, err := couchbasemock.ParseArguments(args)
	switch {
	case err != nil:
		return usagef("mock: %v", err)
	case line.Help:
		_, err := fmt.Fprint(a.stdout, couchbasemock.HelpText())
		return err
	case line.Version:
		_, err := fmt.Fprintln(a.stdout, version())
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	m, err := mock.New(append(line.Options(), mock.Views(viewjs.New(viewjs.Options{})), mock.RecordFrames())...)
	if err != nil {
		return usagef("%v", err)
	}
	m.LimitFrameLog(couchbaseMockFrames)
	var names []string
	for _, b := range line.Buckets {
		names = append(names, b.Name)
	}
	if line.Beer && !slices.Contains(names, mock.BeerBucket) {
		names = append(names, mock.BeerBucket)
	}
	c := &mockCmd{
		Username: mock.DefaultUser, Password: mock.DefaultPassword, Control: "127.0.0.1:0",
		HarakiriMonitor: line.Monitor,
	}
	if err = a.prepareCouchbaseMock(m, line); err == nil {
		err = c.serve(ctx, a, m, names)
	}
	return errors.Join(err, m.Close())
}

// prepareCouchbaseMock makes the cluster one that CouchbaseMock's clients expect.
func (a *app) prepareCouchbaseMock(m *mock.Cluster, line *couchbasemock.Arguments) error {
	if !line.CCCP && len(line.Buckets) > 0 {
		if err := m.SetConfigOverKV("", false); err != nil {
			return err
		}
	}
	if line.Beer {
		if err := m.Load(mock.BeerSample()); err != nil {
			return fmt.Errorf("mock: %w", err)
		}
	}
	if line.Docs != "" {
		if err := loadDocs(m, line.Docs); err != nil {
			return usagef("mock: %v", err)
		}
	}
	if line.Debug && line.Monitor == "" {
		_, port, _ := strings.Cut(m.Node(0).ManagementAddr(), ":")
		if _, err := fmt.Fprintf(a.stdout, "port=%s\n", port); err != nil {
			return err
		}
	}
	return nil
}

// loadDocs loads a ZIP file of documents.
func loadDocs(m *mock.Cluster, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	docs, err := couchbasemock.ReadDocs(f, info.Size())
	if err != nil {
		return err
	}
	return m.Load(docs)
}
