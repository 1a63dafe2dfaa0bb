package handshake_test

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/memd"
)

// script is a server whose answers are prepared, whatever it is asked.
type script struct{ *bytes.Reader }

func (script) Write(b []byte) (int, error)      { return len(b), nil }
func (script) Close() error                     { return nil }
func (script) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (script) SetDeadline(time.Time) error      { return nil }
func (script) SetReadDeadline(time.Time) error  { return nil }
func (script) SetWriteDeadline(time.Time) error { return nil }

// converse does the handshake with a server that says these packets.
func converse(t *testing.T, user string, packets ...memd.Packet) (*handshake.Result, []handshake.Step, error) {
	var in []byte
	for _, p := range packets {
		if p.Magic == 0 {
			p.Magic = memd.MagicRes
		}
		var err error
		in, err = p.AppendTo(in)
		require.NoError(t, err)
	}
	var passed []handshake.Step
	made, err := handshake.Connect(t.Context(), "peer:1", &handshake.Options{
		Bucket: "b", WantConfig: true, AllowPlain: true, Mechanisms: []string{"PLAIN"},
		Dial: func(context.Context, string, string) (net.Conn, error) { return script{bytes.NewReader(in)}, nil },
		Credentials: func(context.Context, string) (handshake.Credentials, error) {
			return handshake.Credentials{
				Username: user, Password: observe.NewSecret("p"), Login: handshake.Login{Generation: 7},
			}, nil
		},
		Passed: func(s handshake.Step) { passed = append(passed, s) },
	})
	return made, passed, err
}

var (
	hello    = memd.Packet{Opcode: memd.OpHello, Value: []byte{0, 0x12}}
	errorMap = memd.Packet{Opcode: memd.OpGetErrorMap, Value: []byte(`{"version":1}`)}
	mechs    = memd.Packet{Opcode: memd.OpSASLListMechs, Value: []byte("PLAIN")}
	auth     = memd.Packet{Opcode: memd.OpSASLAuth}
	selected = memd.Packet{Opcode: memd.OpSelectBucket}
	config   = memd.Packet{Opcode: memd.OpGetClusterConfig, Value: []byte(`{"rev":1}`)}
)

func refusal(op memd.Opcode, st memd.Status) memd.Packet { return memd.Packet{Opcode: op, Status: st} }

// Each step that the server refuses is named by the error, with the kind of the condition that it is.
func TestTheStepThatFailsIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		packets []memd.Packet
		step    handshake.Step
		kind    *cberr.Kind
	}{
		"features": {
			[]memd.Packet{refusal(memd.OpHello, memd.StatusInvalid)},
			handshake.StepHello, cberr.FeatureNotAvailable,
		},
		"login": {
			[]memd.Packet{hello, errorMap, mechs, refusal(memd.OpSASLAuth, memd.StatusAuthError)},
			handshake.StepAuth, cberr.AuthenticationFailure,
		},
		"server is busy": {
			[]memd.Packet{hello, errorMap, mechs, refusal(memd.OpSASLAuth, memd.StatusTmpFail)},
			handshake.StepAuth, nil,
		},
		"bucket access": {
			[]memd.Packet{hello, errorMap, mechs, auth, refusal(memd.OpSelectBucket, memd.StatusAccess)},
			handshake.StepSelectBucket, cberr.BucketAccess,
		},
		"bucket is absent": {
			[]memd.Packet{hello, errorMap, mechs, auth, refusal(memd.OpSelectBucket, memd.StatusKeyNotFound)},
			handshake.StepSelectBucket, cberr.BucketNotFound,
		},
		"another request's answer": {
			[]memd.Packet{hello, errorMap, mechs, selected}, handshake.StepAuth, nil,
		},
		"the end": {[]memd.Packet{hello}, handshake.StepErrorMap, nil},
	} {
		_, _, err := converse(t, "u", c.packets...)
		var e *handshake.Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, c.step, e.Step, name)
		require.Equal(t, c.kind, e.Kind, name)
		require.EqualValues(t, 7, e.Generation, name)
	}
}

// What came behind the last answer belongs to the connection, and so does the newest notification of a map.
func TestWhatComesBehindTheHandshakeIsKept(t *testing.T) {
	change := func(rev byte) memd.Packet {
		extras := make([]byte, 16)
		extras[15] = rev
		return memd.Packet{
			Magic: memd.MagicServerReq, Opcode: memd.ServerOpClustermapChange, Key: []byte("b"), Extras: extras,
		}
	}
	made, passed, err := converse(t, "u", hello, change(3), errorMap, change(2), mechs, auth, selected, config, hello)
	require.NoError(t, err)
	require.Equal(t, []handshake.Step{
		handshake.StepDial, handshake.StepHello, handshake.StepAuth, handshake.StepSelectBucket,
	}, passed)
	require.Equal(t, "PLAIN", made.Info.Mechanism)
	require.Equal(t, config.Value, made.Info.Config)
	require.Equal(t, errorMap.Value, made.Info.ErrorMap)
	_, rev, named := handshake.MapVersion(made.Pushed)
	require.True(t, named)
	require.EqualValues(t, 3, rev)
	var p memd.Packet
	n, err := p.Parse(made.Unread, 0)
	require.NoError(t, err)
	require.Equal(t, memd.OpHello, p.Opcode)
	require.Len(t, made.Unread, n)
	made.Info.Forget()
	require.Empty(t, made.Info.Config)
}

// Without a user name there is no login, and a server without HELLO has no features.
func TestWithoutALogin(t *testing.T) {
	made, _, err := converse(t, "", refusal(memd.OpHello, memd.StatusUnknownCommand),
		refusal(memd.OpGetErrorMap, memd.StatusUnknownCommand), selected,
		refusal(memd.OpGetClusterConfig, memd.StatusNotSupported))
	require.NoError(t, err)
	require.Empty(t, made.Info.Mechanism)
	require.False(t, made.Info.Features.Has(memd.FeatureSnappy))
	require.True(t, made.Info.NoConfig)
	require.Nil(t, made.Info.ErrorMap)
}
