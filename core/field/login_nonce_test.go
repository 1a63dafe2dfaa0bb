package field_test

import (
	"cmp"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha1"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/scripted"
)

// knower is a node that knows the password "p" and proves it. It takes every client, and nonce makes its nonce of the
// client's.
type knower struct {
	nonce         func(client string) string
	salt          string // in base64; knownSalt unless set
	first, answer string // of the login under way: the client's message without its header, and the answer to it
}

const knownSalt = "YWFhYWFhYWFhYWFhYWFhYQ=="

func extended(client string) string { return client + "x" }

func (k *knower) hook(s *scripted.Session, p *memd.Packet) bool {
	switch p.Opcode {
	case memd.OpSASLAuth:
		k.first = strings.TrimPrefix(string(p.Value), "n,,")
		_, nonce, _ := strings.Cut(k.first, ",r=")
		k.answer = "r=" + k.nonce(nonce) + ",s=" + cmp.Or(k.salt, knownSalt) + ",i=4000"
		s.Reply(p, memd.StatusAuthContinue, nil, []byte(k.answer))
	case memd.OpSASLStep:
		proofless, _, _ := strings.Cut(string(p.Value), ",p=")
		salt, err := base64.StdEncoding.DecodeString(cmp.Or(k.salt, knownSalt))
		if err != nil {
			return false
		}
		salted, err := pbkdf2.Key(sha1.New, "p", salt, 4000, sha1.Size)
		if err != nil {
			return false
		}
		signature := mac(mac(salted, "Server Key"), k.first+","+k.answer+","+proofless)
		s.Reply(p, memd.StatusSuccess, nil, []byte("v="+base64.StdEncoding.EncodeToString(signature)))
	default:
		return false
	}
	return true
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha1.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// TestAServersNonceExtendsOurs_D205: a node that adds nothing to the client's nonce is refused, although all that
// follows is right.
func TestAServersNonceExtendsOurs_D205(t *testing.T) {
	for name, c := range map[string]struct {
		nonce func(client string) string
		fits  bool
	}{
		"one more byte":    {extended, true},
		"the client's own": {func(client string) string { return client }, false},
		"a part of it":     {func(client string) string { return client[:len(client)-1] }, false},
		"in another place": {func(client string) string { return "x" + client }, false},
		"no nonce":         {func(string) string { return "" }, false},
		"a second one":     {func(client string) string { return client + ",r=" + client + "x" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := loginTo(t, &knower{nonce: c.nonce}, c.fits)
			if !c.fits {
				require.ErrorContains(t, err, "nonce does not extend the client's")
			}
		})
	}
}

// TestASaltIsCountedInItsBytes_D209: the length of a salt is the one of its bytes, which its text can make look longer.
func TestASaltIsCountedInItsBytes_D209(t *testing.T) {
	for name, c := range map[string]struct {
		salt string
		fits bool
	}{
		"eight bytes":     {"YWFhYWFhYWE=", true},
		"seven bytes":     {"YWFhYWFhYQ==", false},
		"ends of lines":   {"Y\r\n\n\n\n\n\n\n\n\n\n\nQ==", false},
		"nothing else":    {"\n\n\n\n\n\n\n\n\n\n\n\n", false},
		"no whole number": {"YWFhYWFhYWFhYWFhY", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := loginTo(t, &knower{nonce: extended, salt: c.salt}, c.fits)
			if !c.fits {
				require.ErrorContains(t, err, "SCRAM salt")
			}
		})
	}
}

// loginTo logs in to the node. What does not fit is tried until the time is over.
func loginTo(t *testing.T, k *knower, fits bool) error {
	t.Helper()
	s := scripted.New(t, 1)
	s.Nodes[0].SetHook(k.hook)
	cluster := open(t, s, func(c *core.Config) {
		c.Auth.Username, c.Auth.Password = "u", core.NewSecret("p")
		c.Auth.Mechanisms = []string{"SCRAM-SHA1"}
	})
	if fits {
		require.NoError(t, cluster.Bucket("default").WaitReady(within(t, 20*time.Second)))
		return nil
	}
	err := cluster.Bucket("default").WaitReady(within(t, 300*time.Millisecond))
	require.Error(t, err)
	return err
}

// TestPasswordsAreTheirBytes_S3: a password of letters that are not ASCII is proven as it is written, as servers keep
// it: SASLprep would make other letters of these.
func TestPasswordsAreTheirBytes_S3(t *testing.T) {
	const name = "d\u00e9j\u00e0"
	const password = "\u043f\u0430\u0440\u043e\u043b\u044c \u5bc6\u7801 \u2168 \u00aa\u00ad e\u0301 \U0001f511"
	m := mock.Start(t, mock.User(name, password))
	for _, mechanism := range []string{"SCRAM-SHA512", "SCRAM-SHA256", "SCRAM-SHA1"} {
		b := openConfig(t, asUser(t, m, name, password, mechanism)).Bucket("default")
		require.NoError(t, b.WaitReady(within(t, 20*time.Second)), mechanism)
		require.Equal(t, mechanism, b.Status()[0].Mechanism)
		for _, other := range []string{
			strings.ReplaceAll(password, "\u2168", "IX"), strings.ReplaceAll(password, "e\u0301", "\u00e9"),
			strings.ReplaceAll(password, "\u00ad", ""),
		} {
			wrong := openConfig(t, asUser(t, m, name, other, mechanism)).Bucket("default")
			require.Error(t, wrong.WaitReady(within(t, 20*time.Second)), "%s %q", mechanism, other)
		}
	}
}
