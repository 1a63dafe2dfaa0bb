package handshake_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/memd"
)

// teller is a server that answers a SCRAM login with two texts. In the first one "$" is the client's nonce, in the last
// one it is the signature of a server that knows the password "p".
type teller struct {
	script
	first, last string

	in, out                 []byte
	nonce, answer, verifier string
	stepped                 bool // the client has derived its keys
}

func (s *teller) Write(b []byte) (int, error) {
	s.in = append(s.in, b...)
	for {
		var p memd.Packet
		n, err := p.Parse(s.in, memd.DefaultLimit)
		if err != nil {
			return len(b), nil //nolint:nilerr // more is to come
		}
		reply := memd.Packet{Magic: memd.MagicRes, Opcode: p.Opcode, Opaque: p.Opaque}
		switch p.Opcode {
		case memd.OpSASLListMechs:
			reply.Value = []byte("SCRAM-SHA1")
		case memd.OpSASLAuth:
			_, s.nonce, _ = strings.Cut(string(p.Value), ",r=")
			s.answer = strings.ReplaceAll(s.first, "$", s.nonce)
			reply.Status, reply.Value = memd.StatusAuthContinue, []byte(s.answer)
		case memd.OpSASLStep:
			s.stepped = true
			s.verifier = s.sign(string(p.Value))
			reply.Value = []byte(strings.ReplaceAll(s.last, "$", s.verifier))
		}
		if s.out, err = reply.AppendTo(s.out); err != nil {
			return 0, err
		}
		s.in = s.in[n:]
	}
}

func (s *teller) Read(b []byte) (int, error) {
	if len(s.out) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.out)
	s.out = s.out[n:]
	return n, nil
}

// serverFirst is what a client may go on from, once its own nonce is cut off: nonce, salt, count.
var serverFirst = regexp.MustCompile(`^[^,]+,s=([A-Za-z0-9+/\r\n]+[=\r\n]*),i=\+?([0-9]+)(,|$)`)

// asks gives the salt and the count of the first text, if a client may take them.
func (s *teller) asks() (salt []byte, count int, fits bool) {
	behind, ours := strings.CutPrefix(s.answer, "r="+s.nonce)
	m := serverFirst.FindStringSubmatch(behind)
	twice := strings.Count(behind, ",s=") > 1 || strings.Count(behind, ",i=") > 1
	if !ours || m == nil || twice || len(s.answer) > 4<<10 {
		return nil, 0, false
	}
	salt, err := base64.StdEncoding.DecodeString(m[1])
	if err != nil || len(salt) < 8 {
		return nil, 0, false
	}
	count, err = strconv.Atoi(m[2])
	return salt, count, err == nil && count >= 1000 && count <= 1_000_000
}

// sign gives the signature that proves the password.
func (s *teller) sign(clientFinal string) string {
	salt, count, fits := s.asks()
	if !fits {
		return ""
	}
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha1.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	key, err := pbkdf2.Key(sha1.New, "p", salt, count, sha1.Size)
	if err != nil {
		return ""
	}
	proofless, _, _ := strings.Cut(clientFinal, ",p=")
	text := "n=u,r=" + s.nonce + "," + s.answer + "," + proofless
	return base64.StdEncoding.EncodeToString(mac(mac(key, "Server Key"), text))
}

// large are counts that a client takes and that cost too much to try many of.
var large = regexp.MustCompile(`i=\+?0*[0-9]{5,6}(,|$)`)

// maxLoginAlloc bounds what a login allocates, whatever the server says: read buffers, and the parts of a message.
const maxLoginAlloc = 512 << 10

// FuzzServerFirst answers a SCRAM login with any two texts. The client derives keys only from a nonce that extends its
// own, a salt and a count within the bounds; it logs in only to a server that proves the password; otherwise it says
// which step failed. What a login costs is bounded.
func FuzzServerFirst(f *testing.F) {
	const good = "r=$x,s=YWFhYWFhYWFhYWFhYWFhYQ==,i=1000"
	for _, last := range []string{"v=$", "v=$,x=y", "v=", "v=AAAA", "e=invalid-proof", "e=,v=$", ",", ""} {
		f.Add(good, last)
	}
	for _, first := range []string{
		"r=$,s=YWFhYWFhYWFhYWFhYWFhYQ==,i=1000", "r=other,s=YWFhYWFhYWFhYWFhYWFhYQ==,i=1000",
		"r=$x,s=YWFhYWFhYQ==,i=1000", "r=$x,s=Y\r\n\n\n\n\n\n\n\n\n\n\nQ==,i=1000", "r=$x,s=,i=1000",
		"r=$x,s=YWFhYWFhYWFhYWFhYWFhYQ==,i=999", "r=$x,s=YWFhYWFhYWFhYWFhYWFhYQ==,i=1000001",
		"r=$x,s=YWFhYWFhYWFhYWFhYWFhYQ==,i=9223372036854775808", "r=$x,s=YWFhYWFhYWFhYWFhYWFhYQ==,i=-1",
		"r=$x,s=YWFhYWFhYWFhYWFhYWFhYQ==,i=+1000,m=x", "m=x," + good, "r=$x,i=1000,s=YWFhYWFhYWFhYWFhYWFhYQ==",
		good + ",i=", good + ",i=2000", good + ",s=YWFhYWFhYWE=",
		"r=$" + strings.Repeat("x", 4<<10) + ",s=YWFhYWFhYWFhYWFhYWFhYQ==,i=1000", strings.Repeat(",", 4<<10), "",
	} {
		f.Add(first, "v=$")
	}
	f.Fuzz(func(t *testing.T, first, last string) {
		if large.MatchString(first) {
			t.Skip("takes too long")
		}
		s := &teller{script: script{new(bytes.Reader)}, first: first, last: last}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		made, err := handshake.Connect(t.Context(), "peer:1", &handshake.Options{
			Mechanisms: []string{"SCRAM-SHA1"},
			Dial:       func(context.Context, string, string) (net.Conn, error) { return s, nil },
			Credentials: func(context.Context, string) (handshake.Credentials, error) {
				return handshake.Credentials{Username: "u", Password: observe.NewSecret("p")}, nil
			},
		})
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > maxLoginAlloc+16*uint64(len(first)+len(last)) {
			t.Errorf("a login allocated %d bytes", used)
		}
		if _, _, fits := s.asks(); s.stepped != fits {
			t.Errorf("keys were derived: %v, of %q: %v", s.stepped, s.answer, err)
		}
		if err == nil {
			if !strings.Contains(last, "$") && !strings.Contains(last, s.verifier) {
				t.Errorf("a login to %s is believed without a proof: %q", made.Info.Addr, last)
			}
			return
		}
		var e *handshake.Error
		if !errors.As(err, &e) || e.Step == "" || e.Error() == "" {
			t.Errorf("%v names no step", err)
		}
		if last == "v=$" && s.stepped {
			t.Errorf("a server that knows the password is refused: %v", err)
		}
	})
}
