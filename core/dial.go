package core

import (
	"context"
	"net"
	"time"
)

// keepAliveIdle is after how long without traffic TCP probes the other end.
const keepAliveIdle = time.Minute

// dialer is Dial, or the default one, as the configuration wants it.
func (c *Config) dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := c.Net.Dial
	if dial == nil {
		d := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle}}
		switch {
		case c.Net.KeepAlive < 0:
			d.KeepAliveConfig, d.KeepAlive = net.KeepAliveConfig{}, -1
		case c.Net.KeepAlive > 0:
			d.KeepAliveConfig.Idle = c.Net.KeepAlive
		}
		dial = d.DialContext
	} else {
		dial = containedDial(dial)
	}
	if !c.Net.ForceIPv4 {
		return dial
	}
	return func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, "tcp4", addr) }
}
