package conn_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/memd"
)

// script is a peer that has said all it will ever say, whatever it is asked.
type script struct{ *bytes.Reader }

func (script) Write(b []byte) (int, error)      { return len(b), nil }
func (script) TryWrite(b []byte) (int, error)   { return len(b), nil }
func (script) Close() error                     { return nil }
func (script) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (script) SetDeadline(time.Time) error      { return nil }
func (script) SetReadDeadline(time.Time) error  { return nil }
func (script) SetWriteDeadline(time.Time) error { return nil }

// answers are a server's side of a bootstrap, as bytes.
func answers(ps ...memd.Packet) []byte {
	var b []byte
	for _, p := range ps {
		p.Magic = memd.MagicRes
		b, _ = p.AppendTo(b)
	}
	return b
}

// F8: whatever a server says during the bootstrap and after it, the client ends with a connection or with an error that
// names the step; it does not panic, hang, or believe a login that was not proved.
func FuzzServerBytes(f *testing.F) {
	hello := memd.Packet{Opcode: memd.OpHello, Value: []byte{0, 0x12, 0, 0x0f}}
	errMap := memd.Packet{Opcode: memd.OpGetErrorMap, Value: []byte(`{"version":1,"revision":1,"errors":{}}`)}
	mechs := memd.Packet{Opcode: memd.OpSASLListMechs, Value: []byte("SCRAM-SHA512 PLAIN")}
	first := memd.Packet{
		Opcode: memd.OpSASLAuth, Status: memd.StatusAuthContinue,
		Value: []byte("r=x,s=YWJjZGVmZ2hpamts,i=4096"),
	}
	final := memd.Packet{Opcode: memd.OpSASLStep, Value: []byte("v=AAAA")}
	refused := memd.Packet{Opcode: memd.OpSASLAuth, Status: memd.StatusAuthError, Datatype: 1, Value: []byte(`{"error":{"context":"no"}}`)}
	bucket := memd.Packet{Opcode: memd.OpSelectBucket}
	config := memd.Packet{Opcode: memd.OpGetClusterConfig, Value: []byte(`{"rev":1}`)}
	f.Add(answers(hello, errMap, mechs, first, final, bucket, config), true)
	f.Add(answers(hello, errMap, mechs, refused), true)
	get := memd.Packet{Opcode: memd.OpGet, Opaque: conn.FirstSlot + 1<<16}
	f.Add(answers(hello, errMap, bucket, config, get), false)
	f.Add([]byte{0x81}, false)
	f.Fuzz(func(t *testing.T, data []byte, login bool) {
		user := ""
		if login {
			user = "u"
		}
		cn, err := conn.Connect(t.Context(), "peer:1", &conn.Options{
			Base: time.Now(), Handler: ignores{}, Options: handshake.Options{
				Bucket: "b", WantConfig: true, FrameLimit: 1 << 16,
				Dial: func(context.Context, string, string) (net.Conn, error) {
					return script{bytes.NewReader(data)}, nil
				},
				Credentials: func(context.Context, string) (handshake.Credentials, error) {
					return handshake.Credentials{Username: user, Password: observe.NewSecret("p")}, nil
				},
			},
		})
		if err != nil {
			var ce *handshake.Error
			if !errors.As(err, &ce) || ce.Step == "" || ce.Error() == "" {
				t.Fatalf("%v names no step", err)
			}
			return
		}
		if login {
			t.Fatal("a login without a proof was believed")
		}
		if cn.Serve() == nil {
			t.Fatal("the connection ended without a cause")
		}
	})
}
