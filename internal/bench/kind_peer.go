package bench

import (
	"errors"
	"time"

	"github.com/couchbase/gocbcore/v10"
)

// peer is gocbcore with one client object and its defaults, but for the login: the responder offers PLAIN alone.
type peer struct {
	agent    *gocbcore.Agent
	deadline bool
	absent   bool // there are no documents
	keys     [len(sizes)][][]byte
	values   [len(sizes)][]byte
}

const (
	readyLimit   = 20 * time.Second
	peerDeadline = 2500 * time.Millisecond
)

func peerOpener(deadline bool) func(target) (client, error) {
	return func(t target) (client, error) {
		p, err := newPeer(t)
		if err == nil {
			p.deadline = deadline
		}
		return p, err
	}
}

func newPeer(t target) (*peer, error) {
	agent, err := gocbcore.CreateAgent(&gocbcore.AgentConfig{
		BucketName: string(t.mode),
		SeedConfig: gocbcore.SeedConfig{MemdAddrs: t.addrs},
		SecurityConfig: gocbcore.SecurityConfig{
			Auth:           gocbcore.PasswordAuthProvider{Username: "bench", Password: "bench"},
			AuthMechanisms: []gocbcore.AuthMechanism{gocbcore.PlainAuthMechanism},
		},
		IoConfig: gocbcore.IoConfig{UseMutationTokens: true, UseOutOfOrderResponses: true, UseCollections: true, UseDurations: true},
	})
	if err != nil {
		return nil, err
	}
	ready := make(chan error, 1)
	_, err = agent.WaitUntilReady(time.Now().Add(readyLimit), gocbcore.WaitUntilReadyOptions{},
		func(_ *gocbcore.WaitUntilReadyResult, err error) { ready <- err })
	if err == nil {
		err = <-ready
	}
	if err != nil {
		return nil, errors.Join(err, agent.Close())
	}
	p := &peer{agent: agent, absent: t.mode == modeAbsent}
	for class, size := range sizes {
		p.keys[class], p.values[class] = keys(class), value(size)
	}
	return p, nil
}

// work gives one worker's operation: a channel and a callback that are made once, as careful users of it have them.
func (p *peer) work(j job, worker int) func() (int, error) {
	class := classOf(j.Size)
	r := newRotation(j, worker, p.keys[class])
	val := p.values[class]
	done := make(chan error, 1)
	var strategy gocbcore.RetryStrategy = gocbcore.NewBestEffortRetryStrategy(nil)
	var deadline time.Time
	if j.Op == opUpsert {
		stored := func(_ *gocbcore.StoreResult, err error) { done <- err }
		return func() (int, error) {
			if p.deadline {
				deadline = time.Now().Add(peerDeadline)
			}
			_, err := p.agent.Set(gocbcore.SetOptions{Key: r.key(), Value: val, Deadline: deadline, RetryStrategy: strategy}, stored)
			if err == nil {
				err = <-done
			}
			return 1, err
		}
	}
	got := func(res *gocbcore.GetResult, err error) {
		switch {
		case p.absent:
			err = missing(errors.Is(err, gocbcore.ErrDocumentNotFound), err)
		case err == nil:
			err = checkLen(len(res.Value), j.Size)
		}
		done <- err
	}
	return func() (int, error) {
		if p.deadline {
			deadline = time.Now().Add(peerDeadline)
		}
		_, err := p.agent.Get(gocbcore.GetOptions{Key: r.key(), Deadline: deadline, RetryStrategy: strategy}, got)
		if err == nil {
			err = <-done
		}
		return 1, err
	}
}

func (p *peer) close() { _ = p.agent.Close() }
