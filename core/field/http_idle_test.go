package field_test

import (
	"bufio"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
)

// A service that refuses and keeps its connections does not drive the client to connect: that the client closes them,
// or that the service does after some time, is no reason to wait before the next ones.
func TestARefusedConnectionThatTheClientClosesIsNoLoss_D147(t *testing.T) {
	const refusal = "504 Gateway Timeout"
	refuses := func(nc net.Conn) {
		for from := bufio.NewReader(nc); hearsNext(from); {
			says(nc, refusal, "", "")
			_ = nc.SetReadDeadline(time.Now().Add(5 * time.Second))
		}
	}
	refusesOnce := func(nc net.Conn) {
		from := bufio.NewReader(nc)
		if hearsNext(from) {
			says(nc, refusal, "", "")
		}
		for hearsNext(from) { // the caller's deadline ends that
		}
	}
	for name, c := range map[string]struct {
		idle  time.Duration
		serve func(nc net.Conn)
	}{
		"it is idle":                   {0, refuses},
		"the service finds it idle":    {time.Minute, refuses},
		"its second request is silent": {0, refusesOnce},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPeer(t, mock.NewNetwork(mock.NetworkOptions{Latency: watchedLatency}), nil,
					func(cfg *core.Config) { cfg.HTTP.IdleTimeout = c.idle })
				p.accepts(c.serve)
				for range 6 {
					require.Error(t, askPeer(within(t, 300*time.Millisecond), p, nil))
					time.Sleep(6 * time.Second)
				}
				require.Len(t, p.connects(), 6)
				p.accepts(func(nc net.Conn) {
					for from := bufio.NewReader(nc); hearsNext(from); {
						time.Sleep(time.Second)
						says(nc, "200 OK", "", anAnswer)
					}
				})
				began := time.Now()
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() { require.NoError(t, askPeer(within(t, time.Minute), p, nil)) })
				}
				all.Wait()
				require.Less(t, time.Since(began), time.Second+10*time.Millisecond)
				require.Len(t, p.connects(), 6+20)
			})
		})
	}
}
