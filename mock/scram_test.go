package mock

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"strings"
	"testing"

	gocb "github.com/couchbase/gocbcore/v10/scram"
	"github.com/stretchr/testify/require"
	"github.com/xdg-go/scram"
)

var scramMechanisms = map[string]struct {
	theirs          scram.HashGeneratorFcn
	saslPlainPacket func() hash.Hash
}{
	"SCRAM-SHA512": {scram.SHA512, sha512.New}, "SCRAM-SHA-512": {scram.SHA512, sha512.New},
	"SCRAM-SHA256": {scram.SHA256, sha256.New}, "SCRAM-SHA-256": {scram.SHA256, sha256.New},
	"SCRAM-SHA1": {scram.SHA1, sha1.New}, "SCRAM-SHA-1": {scram.SHA1, sha1.New},
}

// passwords of the accounts under test; names and passwords that a normalising side would change are among them.
var passwords = map[string]string{
	"Administrator":  "password",
	"a,b=c":          "comma, equals=",
	"d\u00e9j\u00e0": "\u2168 \u00aa\u00ad soft", // SASLprep makes other characters of all three
	"empty":          "",
	"control":        "tab\tand\x01bell",
}

func findPassword(user string) (scramAccount, bool) {
	p, ok := passwords[user]
	return scramAccount{p, scramIterations}, ok
}

func TestScramAgainstItsOwnClient(t *testing.T) {
	for mech, h := range scramMechanisms {
		for user, password := range passwords {
			for _, authz := range []string{"", user} {
				server, err := newSCRAM(mech, findPassword)
				require.NoError(t, err)
				client, err := h.theirs.NewClientUnprepped(user, password, authz)
				require.NoError(t, err)
				conv := client.NewConversation()
				first, err := conv.Step("")
				require.NoError(t, err)
				challenge, done, name, err := server.Step([]byte(first))
				require.NoError(t, err, "%s %q", mech, user)
				require.False(t, done)
				require.Empty(t, name, "nothing is proven yet")
				final, err := conv.Step(string(challenge))
				require.NoError(t, err)
				proof, done, name, err := server.Step([]byte(final))
				require.NoError(t, err, "%s %q", mech, user)
				require.True(t, done)
				require.Equal(t, user, name)
				_, err = conv.Step(string(proof))
				require.NoError(t, err)
				require.True(t, conv.Valid(), "the server has proven that it knows the password")
				_, done, _, err = server.Step([]byte(final))
				require.Error(t, err, "a login is used once")
				require.False(t, done)
			}
		}
	}
}

func TestScramAgainstGocbcore(t *testing.T) {
	for mech, h := range scramMechanisms {
		for _, password := range []string{"password", "wrong"} {
			server, err := newSCRAM(mech, findPassword)
			require.NoError(t, err)
			client := gocb.NewClient(h.saslPlainPacket, "Administrator", password)
			client.Step(nil)
			challenge, _, _, err := server.Step(client.Out())
			require.NoError(t, err)
			require.True(t, client.Step(challenge), "%v", client.Err())
			proof, done, user, err := server.Step(client.Out())
			if password == "wrong" {
				require.Error(t, err)
				require.False(t, done)
				require.Empty(t, user)
				require.Empty(t, proof, "no proof for who has given none")
				continue
			}
			require.NoError(t, err)
			require.True(t, done)
			require.Equal(t, "Administrator", user)
			client.Step(proof)
			require.NoError(t, client.Err())
		}
	}
}

// TestScramTakesAnyNonce: only the comma is special in a nonce, a space is not.
func TestScramTakesAnyNonce(t *testing.T) {
	for _, nonce := range []string{
		"x", " leading and inner spaces ", "a=b/c+d==", strings.Repeat("n", 1000),
		"\x7f~!",
	} {
		server, err := newSCRAM("SCRAM-SHA256", findPassword)
		require.NoError(t, err)
		client, err := scram.SHA256.NewClientUnprepped("Administrator", "password", "")
		require.NoError(t, err)
		conv := client.WithNonceGenerator(func() string { return nonce }).NewConversation()
		first, err := conv.Step("")
		require.NoError(t, err)
		challenge, _, _, err := server.Step([]byte(first))
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(challenge), "r="+nonce), "%q", challenge)
		final, err := conv.Step(string(challenge))
		require.NoError(t, err)
		_, done, _, err := server.Step([]byte(final))
		require.NoError(t, err)
		require.True(t, done)
	}
}

// scramExchange takes a login to the final message, which it returns unsent with the server's challenge.
func scramExchange(t *testing.T) (server *scramServer, challenge, final string) {
	t.Helper()
	server, err := newSCRAM("SCRAM-SHA256", findPassword)
	require.NoError(t, err)
	client, err := scram.SHA256.NewClientUnprepped("Administrator", "password", "")
	require.NoError(t, err)
	conv := client.NewConversation()
	first, err := conv.Step("")
	require.NoError(t, err)
	out, _, _, err := server.Step([]byte(first))
	require.NoError(t, err)
	final, err = conv.Step(string(out))
	require.NoError(t, err)
	return server, string(out), final
}

func TestScramSaltIsTheUsers(t *testing.T) {
	salt := func(mech, user string) string {
		server, err := newSCRAM(mech, func(string) (scramAccount, bool) { return scramAccount{"p", 4096}, true })
		require.NoError(t, err)
		out, _, _, err := server.Step([]byte("n,,n=" + user + ",r=nonce"))
		require.NoError(t, err)
		fields := strings.Split(string(out), ",")
		require.Len(t, fields, 3)
		require.Equal(t, "i=4096", fields[2])
		return fields[1]
	}
	require.Equal(t, salt("SCRAM-SHA1", "a"), salt("SCRAM-SHA-1", "a"), "the same for every login")
	require.NotEqual(t, salt("SCRAM-SHA1", "a"), salt("SCRAM-SHA1", "b"))
	require.NotEqual(t, salt("SCRAM-SHA1", "a"), salt("SCRAM-SHA256", "a"))
	require.Len(t, salt("SCRAM-SHA1", "a"), len("s=")+24, "16 bytes in base64")
}

func TestScramRefusesChangedFinalMessages(t *testing.T) {
	fields := func(final string, change func(f []string)) string {
		f := strings.Split(final, ",")
		change(f)
		return strings.Join(f, ",")
	}
	for name, change := range map[string]func(final string) string{
		"other channel": func(s string) string { return fields(s, func(f []string) { f[0] = "c=eSws" }) },
		"other nonce":   func(s string) string { return fields(s, func(f []string) { f[1] += "x" }) },
		"short nonce":   func(s string) string { return fields(s, func(f []string) { f[1] = f[1][:5] }) },
		"no proof":      func(s string) string { return fields(s, func(f []string) { f[2] = "p=" }) },
		"short proof":   func(s string) string { return fields(s, func(f []string) { f[2] = f[2][:6] }) },
		"other proof": func(s string) string {
			return fields(s, func(f []string) { f[2] = "p=" + strings.Repeat("A", 43) + "=" })
		},
		"an extension": func(s string) string { return fields(s, func(f []string) { f[1] += ",x=y" }) },
		"empty":        func(string) string { return "" },
		"too few":      func(s string) string { return s[:strings.LastIndexByte(s, ',')] },
	} {
		server, _, final := scramExchange(t)
		out, done, user, err := server.Step([]byte(change(final)))
		require.Error(t, err, name)
		require.False(t, done, name)
		require.Empty(t, user, name)
		require.Empty(t, out, name)
		_, done, _, err = server.Step([]byte(final))
		require.Error(t, err, "%s: no second try", name)
		require.False(t, done, name)
	}
	server, _, final := scramExchange(t)
	_, done, _, err := server.Step([]byte(final))
	require.NoError(t, err, "unchanged")
	require.True(t, done)
}

func TestScramRefusesFirstMessages(t *testing.T) {
	for _, first := range []string{
		"", "n", "n,,", "n,,n=Administrator", "n,,n=Administrator,", "n,,n=Administrator,x=y",
		"n,,r=nonce,n=Administrator",
		"p=tls-unique,,n=Administrator,r=nonce", "q,,n=Administrator,r=nonce", "n,x=y,n=Administrator,r=nonce",
		"n,,m=ext,n=Administrator,r=nonce", "n,,n=nobody,r=nonce", "n,,n=a=2Xb,r=nonce",
		"n,a==,n=Administrator,r=nonce",
	} {
		server, err := newSCRAM("SCRAM-SHA1", findPassword)
		require.NoError(t, err)
		_, done, user, err := server.Step([]byte(first))
		require.Error(t, err, "%q", first)
		require.False(t, done)
		require.Empty(t, user)
	}
	for _, first := range []string{
		"n,,n=Administrator,r=nonce", "n,a=Administrator,n=Administrator,r=nonce", "y,,n=Administrator,r=nonce",
		"n,,n=a=2Cb=3Dc,r=nonce", "n,,n=Administrator,r=nonce,ext=1",
	} {
		server, err := newSCRAM("SCRAM-SHA1", findPassword)
		require.NoError(t, err)
		_, _, _, err = server.Step([]byte(first))
		require.NoError(t, err, "%q", first)
	}
}

func TestScramMechanisms(t *testing.T) {
	for _, mech := range []string{"", "PLAIN", "SCRAM", "SCRAM-SHA", "SCRAM-SHA384", "SCRAM-MD5", "scram-sha1"} {
		_, err := newSCRAM(mech, findPassword)
		require.Error(t, err, mech)
	}
}

// FuzzScramServer sends a client's two messages. Without the password no login succeeds, whatever they are.
func FuzzScramServer(f *testing.F) {
	f.Add([]byte("n,,n=Administrator,r=nonce"), []byte("c=biws,r=nonce,p=AAAA"))
	f.Add([]byte("n,a=Administrator,n=Administrator,r=no nonce"), []byte("c=bixhPUFkbWluaXN0cmF0b3Is,r=x,p="))
	f.Add([]byte("y,,n=a=2Cb,r=n"), []byte("c=eSws,r=n,x=y,p=AAAAAAAAAAAAAAAAAAAAAAAAAAA="))
	f.Add([]byte("p=tls-unique,,n=,r="), []byte(",,"))
	f.Fuzz(func(t *testing.T, first, final []byte) {
		server, err := newSCRAM("SCRAM-SHA1", func(string) (scramAccount,
			bool,
		) {
			return scramAccount{"a password that is not guessed", 4096}, true
		})
		require.NoError(t, err)
		challenge, done, user, err := server.Step(first)
		require.False(t, done)
		require.Empty(t, user)
		if err != nil {
			require.Empty(t, challenge)
			final = first
		}
		// With the server's own nonce the message gets as far as it can.
		if r, _, ok := bytes.Cut(challenge, []byte(",")); ok {
			final = bytes.Replace(final, []byte("r=x"), r, 1)
		}
		for range 2 {
			out, done, user, err := server.Step(final)
			require.Error(t, err)
			require.False(t, done)
			require.Empty(t, user)
			require.Empty(t, out)
		}
	})
}
