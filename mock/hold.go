package mock

import (
	"context"
	"net"
	"time"
)

// holdTime bounds how long Kill tries to hold a node's ports.
const holdTime = 200 * time.Millisecond

// hold keeps the ports of a node that is down from the programs that ask the system for a free one: they would answer
// the node's clients, and the node could not come back. A port is held by a connection from it to itself, which refuses
// all others as a port does on which nothing listens. A port cannot be held when a connection of the node's has just
// ended on it. The system gives such a port to no other program for about a minute.
func (n *Node) hold() {
	c := n.c
	if c.net != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), holdTime)
	defer cancel()
	var held []net.Conn
	for _, of := range n.addrs {
		for _, addr := range of {
			local, err := net.ResolveTCPAddr("tcp", addr)
			if addr == "" || err != nil {
				continue
			}
			nc, err := (&net.Dialer{LocalAddr: local}).DialContext(ctx, "tcp", addr)
			if err != nil {
				continue
			}
			if tcp, ok := nc.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // the port is free when it is closed
			}
			held = append(held, nc)
		}
	}
	c.mu.Lock()
	if !n.up && !c.closed {
		n.held, held = append(n.held, held...), nil
	}
	c.mu.Unlock()
	freeAll(held)
}

// letGo frees the ports that are held.
func (n *Node) letGo() {
	n.c.mu.Lock()
	held := n.held
	n.held = nil
	n.c.mu.Unlock()
	freeAll(held)
}

func freeAll(held []net.Conn) {
	for _, nc := range held {
		nc.Close()
	}
}
