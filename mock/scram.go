package mock

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/xdg-go/scram"
)

// scramServer is the server's side of one SCRAM login.
type scramServer struct{ conv *scram.ServerConversation }

const (
	// scramIterations is the least that RFC 7677 allows, which every client takes. ns_server makes accounts with 4,000
	// from 6.5 to 7.2 and with 15,000 later, which would make each login of a test slow.
	scramIterations    = 4096
	maxScramIterations = 10_000_000 // the largest that ns_server's scramShaIterations takes; the least is 1
	scramSaltLen       = 16
)

var scramHashes = map[string]scram.HashGeneratorFcn{
	"SCRAMSHA1": scram.SHA1, "SCRAMSHA256": scram.SHA256, "SCRAMSHA512": scram.SHA512,
}

// scramAccount is what a SCRAM login wants to know of an account.
type scramAccount struct {
	password   string
	iterations int
}

// newSCRAM begins a login. mech is a SCRAM mechanism, with or without the second hyphen; lookup finds an account and is
// called from Step.
func newSCRAM(mech string, lookup func(user string) (a scramAccount, ok bool)) (*scramServer, error) {
	hash, ok := scramHashes[strings.ReplaceAll(mech, "-", "")]
	if !ok {
		return nil, fmt.Errorf("mock: no SCRAM mechanism %q", mech)
	}
	server, err := hash.NewServer(func(user string) (scram.StoredCredentials, error) {
		account, ok := lookup(user)
		if !ok {
			return scram.StoredCredentials{}, errors.New("mock: no such user")
		}
		client, err := hash.NewClientUnprepped(user, account.password, "") // a server does not normalise either
		if err != nil {
			return scram.StoredCredentials{}, err
		}
		return client.GetStoredCredentialsWithError(scram.KeyFactors{
			Salt:  scramSalt(mech, user),
			Iters: account.iterations,
		})
	})
	if err != nil {
		return nil, err
	}
	return &scramServer{server.NewConversation()}, nil
}

// scramSalt is a user's salt for a mechanism. As on a server it is the same for every login, so that a client can keep
// the keys that it derives with it.
func scramSalt(mech, user string) string {
	sum := sha256.Sum256([]byte(strings.ReplaceAll(mech, "-", "") + "\x00" + user))
	return string(sum[:scramSaltLen])
}

// Step takes the client's next message and returns the answer to it. done means that the login has succeeded, as user;
// before that user is empty. After an error the login is over.
func (s *scramServer) Step(in []byte) (out []byte, done bool, user string, err error) {
	text, err := s.conv.Step(string(in))
	if err != nil {
		return nil, false, "", err
	}
	if s.conv.Done() && !s.conv.Valid() {
		return nil, false, "", errors.New("mock: the login failed")
	}
	if !s.conv.Valid() {
		return []byte(text), false, "", nil
	}
	return []byte(text), true, s.conv.Username(), nil
}
