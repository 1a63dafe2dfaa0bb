package mock

import (
	"bytes"
	"crypto/subtle"
	"slices"
	"strings"

	"github.com/couchcore/couchcore/memd"
)

// SASL_LIST_MECHS, SASL_AUTH, SASL_STEP: PLAIN and SCRAM with real cryptography against the cluster's accounts. PLAIN
// is taken on plaintext ports too, as a server takes it. A wrong user, password or mechanism is 0x20; so is SCRAM for a
// user of an external directory. Left out: client certificates, expiry of credentials.

// saslState is a login under way. It belongs to the read loop.
type saslState struct {
	mech  string
	scram *scramServer
}

func saslList(rq *request) reply {
	return reply{value: []byte(strings.Join(rq.k.n.mechanisms(), " "))}
}

func saslAuth(rq *request) reply {
	k := rq.k
	mech := strings.ToUpper(string(rq.p.Key))
	k.sasl = saslState{}
	if !slices.Contains(k.n.mechanisms(), mech) {
		return fail(memd.StatusAuthError, "Mechanism %q is not supported, use one of: %s", mech,
			strings.Join(k.n.mechanisms(), " "))
	}
	switch mech {
	case "PLAIN":
		return saslPlain(rq)
	case "OAUTHBEARER":
		return saslBearer(rq)
	}
	s, err := newSCRAM(mech, k.c.scramAccount)
	if err != nil {
		return fail(memd.StatusAuthError, "%v", err)
	}
	k.user.Store(nil)
	k.sasl = saslState{mech, s}
	return saslAdvance(rq)
}

func saslStep(rq *request) reply {
	k := rq.k
	if k.sasl.scram == nil || k.sasl.mech != strings.ToUpper(string(rq.p.Key)) {
		return fail(memd.StatusInvalid, "SASL_STEP without SASL_AUTH for the mechanism")
	}
	return saslAdvance(rq)
}

func saslAdvance(rq *request) reply {
	k := rq.k
	out, done, name, err := k.sasl.scram.Step(rq.p.Value)
	if err != nil {
		k.sasl = saslState{}
		return fail(memd.StatusAuthError, "Authentication failed")
	}
	if !done {
		return reply{status: memd.StatusAuthContinue, value: out}
	}
	k.sasl = saslState{}
	if !k.login(name) {
		return fail(memd.StatusAuthError, "Authentication failed")
	}
	return reply{value: out}
}

// saslPlain takes "authzid NUL user NUL password".
func saslPlain(rq *request) reply {
	parts := bytes.Split(rq.p.Value, []byte{0})
	if len(parts) != 3 {
		return fail(memd.StatusInvalid, "PLAIN needs authorization id, user and password")
	}
	want, ok := rq.k.c.password(string(parts[1]))
	if !ok || subtle.ConstantTimeCompare([]byte(want), parts[2]) != 1 || !rq.k.login(string(parts[1])) {
		return fail(memd.StatusAuthError, "Authentication failed")
	}
	return reply{}
}

func saslBearer(rq *request) reply {
	token, ok := bytes.CutPrefix(rq.p.Value, []byte("n,,\x01auth=Bearer "))
	token, end := bytes.CutSuffix(token, []byte("\x01\x01"))
	if !ok || !end {
		return fail(memd.StatusInvalid, "OAUTHBEARER needs a bearer token")
	}
	name, ok := rq.k.c.set.tokens[string(token)]
	if !ok || !rq.k.login(name) {
		return fail(memd.StatusAuthError, "Authentication failed")
	}
	return reply{}
}

// login makes the connection the user's.
func (k *conn) login(name string) bool {
	k.c.mu.Lock()
	u := k.c.users[name]
	k.c.mu.Unlock()
	if u != nil {
		k.user.Store(u)
	}
	return u != nil
}
