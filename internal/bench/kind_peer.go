package bench

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	"github.com/couchbase/gocbcore/v10"
)

// peer is gocbcore with one client object and its defaults, but for the login: the responder offers PLAIN alone.
type peer struct {
	agent    *gocbcore.Agent
	strategy gocbcore.RetryStrategy
	keys     [len(sizes)][][]byte
	values   [len(sizes)][]byte
}

const readyLimit = 20 * time.Second

func openPeer(t target) (client, error) { return newPeer(t) }

func newPeer(t target) (*peer, error) {
	cfg := &gocbcore.AgentConfig{
		BucketName: string(t.mode),
		SeedConfig: gocbcore.SeedConfig{MemdAddrs: t.addrs},
		SecurityConfig: gocbcore.SecurityConfig{
			Auth:           gocbcore.PasswordAuthProvider{Username: "bench", Password: "bench"},
			AuthMechanisms: []gocbcore.AuthMechanism{gocbcore.PlainAuthMechanism},
		},
		IoConfig: gocbcore.IoConfig{
			UseMutationTokens: true, UseOutOfOrderResponses: true, UseCollections: true, UseDurations: true,
		},
	}
	if t.tls {
		pool := roots(t.ca)
		cfg.SecurityConfig.UseTLS = true
		cfg.SecurityConfig.TLSRootCAProvider = func() *x509.CertPool { return pool }
	}
	agent, err := gocbcore.CreateAgent(cfg)
	if err != nil {
		return nil, err
	}
	ready := make(chan error, 1)
	_, err = agent.WaitUntilReady(time.Now().Add(readyLimit),
		gocbcore.WaitUntilReadyOptions{ServiceTypes: []gocbcore.ServiceType{gocbcore.MemdService}},
		func(_ *gocbcore.WaitUntilReadyResult, err error) { ready <- err })
	if err == nil {
		err = <-ready
	}
	if err != nil {
		return nil, errors.Join(err, agent.Close())
	}
	p := &peer{agent: agent, strategy: gocbcore.NewBestEffortRetryStrategy(nil)}
	for class, size := range sizes {
		p.keys[class], p.values[class] = keys(class), value(size)
	}
	return p, nil
}

// work gives one caller's operation: a channel and a callback that are made once, as careful users of it have them.
func (p *peer) work(j job, caller int) func() (int, error) {
	if j.Op == opQuery {
		return p.query
	}
	class := classOf(j.Size)
	r := newRotation(j, caller, p.keys[class])
	done := make(chan error, 1)
	send := p.getter(j.Size, done)
	if j.Op == opUpsert {
		send = p.setter(p.values[class], done)
	}
	if j.Fresh {
		return func() (int, error) { return 1, inContext(send, r.key(), done) }
	}
	return func() (int, error) {
		_, err := send(r.key(), time.Time{})
		if err == nil {
			err = <-done
		}
		return 1, err
	}
}

// sender starts an operation, whose end done tells.
type sender func(key []byte, deadline time.Time) (gocbcore.PendingOp, error)

func (p *peer) getter(size int, done chan<- error) sender {
	got := func(res *gocbcore.GetResult, err error) {
		if err == nil {
			err = checkLen(len(res.Value), size)
		}
		done <- err
	}
	return func(key []byte, deadline time.Time) (gocbcore.PendingOp, error) {
		return p.agent.Get(gocbcore.GetOptions{Key: key, Deadline: deadline, RetryStrategy: p.strategy}, got)
	}
}

func (p *peer) setter(val []byte, done chan<- error) sender {
	stored := func(_ *gocbcore.StoreResult, err error) { done <- err }
	return func(key []byte, deadline time.Time) (gocbcore.PendingOp, error) {
		o := gocbcore.SetOptions{Key: key, Value: val, Deadline: deadline, RetryStrategy: p.strategy}
		return p.agent.Set(o, stored)
	}
}

// inContext is what a caller with a context does, as gocb has it: the deadline goes with the operation, and the
// context's end cancels it.
func inContext(send sender, key []byte, done <-chan error) error {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	deadline, _ := ctx.Deadline()
	op, err := send(key, deadline)
	if err != nil {
		return err
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		op.Cancel()
		err = <-done
	}
	return err
}

// query reads all rows of a statement.
func (p *peer) query() (int, error) {
	type opened struct {
		rows *gocbcore.N1QLRowReader
		err  error
	}
	done := make(chan opened, 1)
	o := gocbcore.N1QLQueryOptions{
		Payload: []byte(`{"statement":"SELECT * FROM airlines","readonly":true}`), RetryStrategy: p.strategy,
		Deadline: time.Now().Add(readyLimit),
	}
	_, err := p.agent.N1QLQuery(o, func(rows *gocbcore.N1QLRowReader, err error) { done <- opened{rows, err} })
	if err != nil {
		return 0, err
	}
	got := <-done
	if got.err != nil {
		return 0, got.err
	}
	n := 0
	for row := got.rows.NextRow(); row != nil; row = got.rows.NextRow() {
		if len(row) > 0 {
			n++
		}
	}
	if err := got.rows.Err(); err != nil {
		return 0, err
	}
	return 1, checkLen(n, queryRows)
}

func (p *peer) close() { _ = p.agent.Close() }
