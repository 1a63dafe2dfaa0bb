package field_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
)

// A call in flight holds its compressed value and no more: what the encoder needs beside is shared.
func TestMemoryOfCompressedCallsInFlight_D142(t *testing.T) {
	const calls, each = 200, 64 << 10
	value := bytes.Repeat([]byte("the same again and again "), 256<<10/25)
	s := scripted.New(t, 1)
	s.Nodes[0].SetHook(func(session *scripted.Session, p *memd.Packet) bool {
		if p.Opcode == memd.OpSet && len(p.Value) > each {
			t.Errorf("a value of %d bytes came", len(p.Value))
		}
		return p.Opcode == memd.OpSet // without an answer
	})
	b := ready(t, s, func(c *core.Config) { c.Maps.NoNotifications = true })
	before := heap()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var futures []kv.Future[kv.MutationResult]
	for range calls {
		futures = append(futures, kv.Start(ctx, b, kv.Upsert{
			Common: kv.Common{Timeout: time.Minute}, Key: []byte("k"),
			Value: value,
		}))
	}
	require.Eventually(t, func() bool { return s.Nodes[0].Requests(memd.OpSet) == calls }, 20*time.Second,
		time.Millisecond)
	require.Less(t, (heap()-before)/calls, int64(each), "bytes of each call in flight")
	cancel()
	for _, f := range futures {
		_, err := f.Wait(context.Background())
		require.Error(t, err)
	}
	runtime.KeepAlive(futures)
}

// A header that announces a long body reserves no memory for what has not come.
func TestAHeaderReservesNoMemory_D142(t *testing.T) {
	const connections, each = 16, 2 << 20
	s := scripted.New(t, 1)
	s.Nodes[0].SetHook(func(session *scripted.Session, p *memd.Packet) bool {
		if p.Opcode != memd.OpNoop {
			return false
		}
		var header [memd.HeaderLen]byte
		header[0], header[1] = byte(memd.MagicRes), byte(memd.OpGet)
		binary.BigEndian.PutUint32(header[8:], 31<<20) // of a body that never comes
		session.Raw(header[:])
		return true
	})
	b := ready(t, s, func(c *core.Config) { c.KV.Connections, c.Maps.PollInterval = connections, time.Hour })
	before := heap()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range connections {
		kv.Start(ctx, b, kv.Noop{Common: kv.Common{Timeout: time.Minute}})
	}
	require.Eventually(t, func() bool { return s.Nodes[0].Requests(memd.OpNoop) == connections }, 20*time.Second,
		time.Millisecond)
	time.Sleep(100 * time.Millisecond) // the headers are read
	require.Less(t, (heap()-before)/connections, int64(each), "bytes of each connection")
}

// A long body that does come is received whole, whatever its length is.
func TestLongBodiesAreReceivedWhole_D142(t *testing.T) {
	s := scripted.New(t, 1)
	b := ready(t, s, func(c *core.Config) { c.KV.Compression.Off = true })
	for _, size := range []int{256<<10 - 1, 256 << 10, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5<<20 + 7, 19 << 20} {
		value := make([]byte, size)
		for i := 0; i+8 <= size; i += 8 {
			binary.LittleEndian.PutUint64(value[i:], uint64(i)*0x9E3779B97F4A7C15)
		}
		s.SetDocument("k", value)
		res, err := kv.Do(within(t, 30*time.Second), b, kv.Get{
			Common: kv.Common{Timeout: 20 * time.Second},
			Key:    []byte("k"),
		})
		require.NoError(t, err, size)
		require.True(t, bytes.Equal(value, res.Value), size)
		require.Equal(t, size, cap(res.Value), "its exact size")
	}
}
