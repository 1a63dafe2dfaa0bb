package handshake

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/xdg-go/scram"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
)

// Bounds of what a SCRAM server asks for. ns_server makes accounts with 4,000 iterations from 6.5 to 7.2 and with
// 15,000 later, whatever RFC 7677 demands of servers; RFC 8018 has 1,000 as the least. A count below the bounds makes
// it cheap to guess the password from the proof, one above them takes seconds of processor time. Salts of servers have
// 16 to 64 bytes.
const (
	minIterations = 1000
	maxIterations = 1_000_000
	minSalt       = 8
)

// mechanism is one way to log in. The second name is how libraries other than Couchbase spell it.
type mechanism struct {
	name, alt string
	hash      scram.HashGeneratorFcn // nil for the mechanisms of one step
}

// bearer logs in with a token, and only that does.
var bearer = mechanism{Bearer, Bearer, nil}

// Bearer is the name of the mechanism that takes tokens.
const Bearer = "OAUTHBEARER"

// BearerPayload is what a token is sent as.
func BearerPayload(token string) []byte { return []byte("n,,\x01auth=Bearer " + token + "\x01\x01") }

// mechanisms in order of preference. Couchbase's names have no hyphen before the digits.
var mechanisms = []mechanism{
	{"SCRAM-SHA512", "SCRAM-SHA-512", sha512.New},
	{"SCRAM-SHA256", "SCRAM-SHA-256", sha256.New},
	{"SCRAM-SHA1", "SCRAM-SHA-1", sha1.New},
	{"PLAIN", "PLAIN", nil},
}

// login is one exchange.
type login struct {
	mech mechanism
	wire string                    // the name as this server spells it
	conv *scram.ClientConversation // nil for the mechanisms of one step

	nonce string // of the client, in its first message
}

func (l *login) oneStep() bool { return l.conv == nil }

// Keyring keeps the salted keys of one cluster's users, so that a reconnect costs no key derivation. Like Secret it
// keeps them behind a function, where no printer that walks values finds them.
type Keyring struct {
	once sync.Once
	open func() *keys // set by once
}

type keys struct {
	mu      sync.Mutex
	clients map[keyringEntry]*keptClient
}

// keptClient keeps the keys of each salt and count that servers have asked it for.
type keptClient struct {
	*scram.Client
	logins int
}

type keyringEntry struct{ mech, user, password string }

// Bounds of a keyring: rotation must not grow it for ever, and a server that asks with another salt at each login must
// not either. A client that has made its logins is replaced, which costs one more derivation.
const (
	maxKeys   = 64
	maxLogins = 256
)

// newClient makes a client that takes the counts that checkServerFirst takes.
func newClient(m mechanism, cr Credentials) (*scram.Client, error) {
	c, err := m.hash.NewClientUnprepped(cr.Username, cr.Password.Reveal(), "")
	if err != nil {
		return nil, err
	}
	return c.WithMinIterations(minIterations), nil
}

func (r *Keyring) client(m mechanism, cr Credentials) (*scram.Client, error) {
	if r == nil {
		return newClient(m, cr)
	}
	r.once.Do(func() {
		k := &keys{clients: map[keyringEntry]*keptClient{}}
		r.open = func() *keys { return k }
	})
	k := r.open()
	key := keyringEntry{m.name, cr.Username, cr.Password.Reveal()}
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.clients[key]; c != nil && c.logins < maxLogins {
		c.logins++
		return c.Client, nil
	}
	c, err := newClient(m, cr)
	if err != nil {
		return nil, err
	}
	if len(k.clients) >= maxKeys {
		clear(k.clients)
	}
	k.clients[key] = &keptClient{c, 1}
	return c, nil
}

// errUnproven means that the server ended the login without proving that it knows the password.
var errUnproven = errors.New("the server did not prove that it knows the password")

// errNoMechanism means that the server offers nothing that this client may use.
var errNoMechanism = errors.New("no common authentication mechanism")

var errTokenInTheClear = fmt.Errorf("%w: a token is sent over TLS only", errNoMechanism)

// newLogin begins with the preferred mechanism, before the server's list is known. Nil means that there is nothing to
// log in with.
func (d *dialogue) newLogin() (*login, error) {
	if d.anonymous() {
		return nil, nil
	}
	allowed := d.allowed()
	if len(allowed) == 0 {
		err := errNoMechanism
		if !d.creds.Token.Empty() {
			err = errTokenInTheClear
		}
		return nil, &Error{Addr: d.addr, Step: StepAuth, Err: err}
	}
	return d.login(allowed[0], allowed[0].name)
}

// allowed are the mechanisms that may be used on this socket, the best first: PLAIN never on plaintext unless asked
// for, and a token never.
func (d *dialogue) allowed() []mechanism {
	var ms []mechanism
	if !d.creds.Token.Empty() {
		if d.o.TLS != nil {
			ms = append(ms, bearer)
		}
		return ms
	}
	names := d.creds.Mechanisms
	if len(names) == 0 {
		names = d.o.Mechanisms
	}
	if len(names) == 0 {
		ms = slices.Clone(mechanisms)
	}
	for _, name := range names {
		for _, m := range mechanisms {
			if strings.EqualFold(name, m.name) || strings.EqualFold(name, m.alt) {
				ms = append(ms, m)
			}
		}
	}
	return slices.DeleteFunc(ms, func(m mechanism) bool {
		return m.hash == nil && d.o.TLS == nil && !d.o.AllowPlain
	})
}

func (d *dialogue) login(m mechanism, wire string) (*login, error) {
	l := &login{mech: m, wire: wire}
	if m.hash != nil {
		client, err := d.o.SCRAM.client(m, d.creds)
		if err != nil {
			return nil, err
		}
		l.conv = client.NewConversation()
	}
	return l, nil
}

// otherLogin takes the mechanism to go on with after one was refused, nil when the refusal is final. A mechanism that
// the server does not list is replaced by the best that it lists. SCRAM that it lists may have been refused because the
// user is one of an external directory, such as LDAP or PAM: the server has nothing to prove those by, and its answer
// does not tell. So PLAIN is tried.
func (d *dialogue) otherLogin(failed *login) (*login, error) {
	listed := slices.Contains(d.mechs, failed.wire)
	if len(d.mechs) == 0 || listed && failed.oneStep() {
		return nil, nil
	}
	for _, m := range d.allowed() {
		if m.hash == nil && !d.mayFallBack() || m.hash != nil && listed {
			continue
		}
		for _, name := range []string{m.name, m.alt} {
			if name != failed.wire && slices.Contains(d.mechs, name) {
				return d.login(m, name)
			}
		}
	}
	if listed {
		return nil, nil
	}
	err := fmt.Errorf("%w: the server offers %v", errNoMechanism, d.mechs)
	if d.o.TLS != nil && !d.mayFallBack() {
		err = fmt.Errorf("%w; PLAIN is used only where the certificate is verified, or when it is the first choice",
			err)
	}
	return nil, &Error{Addr: d.addr, Step: StepMechanisms, Err: err}
}

// mayFallBack reports whether the server may make the client go on to PLAIN, which tells it the password: where its
// certificate was verified, or where the user allows PLAIN to anyone. Otherwise an attacker between the two could
// refuse everything else.
func (d *dialogue) mayFallBack() bool {
	return d.o.AllowPlain || d.o.TLS != nil && !d.o.TLS.InsecureSkipVerify
}

// auth queues the first message.
func (d *dialogue) auth(l *login) {
	d.info.Mechanism = l.mech.name
	var payload string
	switch {
	case l.mech.name == Bearer:
		payload = string(BearerPayload(d.creds.Token.Reveal()))
	case l.oneStep():
		payload = "\x00" + d.creds.Username + "\x00" + d.creds.Password.Reveal()
	default:
		var err error
		payload, err = l.conv.Step("")
		_, l.nonce, _ = strings.Cut(payload, ",r=") // a name's commas are escaped
		d.wrong = cmp.Or(d.wrong, err)
	}
	d.request(memd.OpSASLAuth, []byte(l.wire), []byte(payload))
}

// finishLogin reads the server's list and the login's answers. After a refusal another mechanism may follow on the same
// socket; then the answers to what was sent behind the first are discarded.
func (d *dialogue) finishLogin(l *login) error {
	if err := d.readMechanisms(); err != nil {
		return err
	}
	for {
		err := d.readLogin(l, !d.tail)
		var ce *Error
		if err == nil || !errors.As(err, &ce) || ce.Status != memd.StatusAuthError {
			return err
		}
		other, err := d.otherLogin(l)
		switch {
		case err != nil:
			return err
		case other == nil:
			return ce
		}
		if err := d.skipTail(); err != nil {
			return err
		}
		d.auth(other)
		if other.oneStep() {
			d.requestTail()
		}
		l = other
	}
}

// skipTail discards the answers to what follows the login, if it was sent.
func (d *dialogue) skipTail() error {
	if !d.tail {
		return nil
	}
	d.tail = false
	if d.o.Bucket != "" {
		if _, err := d.next(StepSelectBucket, memd.OpSelectBucket); err != nil {
			return err
		}
	}
	if d.o.WantConfig {
		if _, err := d.next(StepConfig, memd.OpGetClusterConfig); err != nil {
			return err
		}
	}
	return nil
}

// readLogin follows the exchange to its end. withTail sends what follows the login right behind its last message.
func (d *dialogue) readLogin(l *login, withTail bool) error {
	p, err := d.next(StepAuth, memd.OpSASLAuth)
	if err != nil {
		return err
	}
	if l.oneStep() {
		return d.loggedIn(p)
	}
	if p.Status != memd.StatusAuthContinue {
		return d.loginRefused(p)
	}
	first := string(p.Value)
	err = checkServerFirst(first, l.nonce)
	if err == nil {
		first, err = l.conv.Step(first)
	}
	if err != nil {
		return &Error{Addr: d.addr, Step: StepAuth, Err: err}
	}
	d.request(memd.OpSASLStep, []byte(l.wire), []byte(first))
	if withTail {
		d.requestTail()
	}
	if p, err = d.next(StepAuthStep, memd.OpSASLStep); err != nil {
		return err
	}
	if p.Status != memd.StatusSuccess && p.Status != memd.StatusAuthContinue {
		return d.loginRefused(p)
	}
	if err := d.prove(l, string(p.Value)); err != nil || p.Status == memd.StatusSuccess {
		return err
	}
	d.request(memd.OpSASLStep, []byte(l.wire), nil) // Cyrus SASL wants one more, empty step
	if p, err = d.next(StepAuthStep, memd.OpSASLStep); err != nil {
		return err
	}
	return d.loggedIn(p)
}

// prove checks the server's last message, whatever its status says: only the right signature proves that the server
// knows the password.
func (d *dialogue) prove(l *login, last string) error {
	_, err := l.conv.Step(last)
	switch {
	case err == nil && l.conv.Valid():
		return nil
	case err == nil:
		err = errUnproven
	}
	e := &Error{Addr: d.addr, Step: StepAuthStep, Err: fmt.Errorf("the server's signature is wrong: %w", err)}
	if refusesProof(last) {
		e.Kind = cberr.AuthenticationFailure
	}
	return e
}

func (d *dialogue) loggedIn(p *memd.Packet) error {
	if p.Status != memd.StatusSuccess {
		return d.loginRefused(p)
	}
	return nil
}

// loginRefused tells bad credentials from trouble: only an explicit refusal counts as one.
func (d *dialogue) loginRefused(p *memd.Packet) error {
	if p.Status == memd.StatusAuthError {
		return d.refused(p, cberr.AuthenticationFailure)
	}
	return d.refused(p, nil)
}

// errNonce means that the server added nothing of its own to the client's nonce. RFC 5802 (section 5.1) wants that
// part: it makes a proof new where the client's random numbers are not.
var errNonce = errors.New("the server's SCRAM nonce does not extend the client's")

// errTwice means that a reader of the message has to choose what the server asks for.
var errTwice = errors.New("the server names its SCRAM salt or its iteration count twice")

// checkServerFirst bounds what the server asks for before any key is derived. The library takes the client's nonce
// alone for the server's.
func checkServerFirst(msg, nonce string) error {
	if own, ok := strings.CutPrefix(msg, "r="+nonce); !ok || own == "" || own[0] == ',' {
		return errNonce
	}
	if strings.Count(msg, ",s=") > 1 || strings.Count(msg, ",i=") > 1 {
		return errTwice
	}
	for field := range strings.SplitSeq(msg, ",") {
		switch {
		case strings.HasPrefix(field, "i="):
			n, err := strconv.Atoi(field[2:])
			if err != nil || n < minIterations || n > maxIterations {
				return fmt.Errorf("SCRAM iteration count %.20q is outside %d..%d", field[2:], minIterations,
					maxIterations)
			}
		case strings.HasPrefix(field, "s="):
			// The text is no measure: it may have padding and, as the library decodes it, ends of lines.
			salt, err := base64.StdEncoding.DecodeString(field[2:])
			if err != nil {
				return fmt.Errorf("SCRAM salt: %w", err)
			}
			if len(salt) < minSalt {
				return fmt.Errorf("SCRAM salt has fewer than %d bytes", minSalt)
			}
		}
	}
	return nil
}

// refusesProof reports whether a last message of SCRAM refuses the credentials by its error attribute, although its
// status is a success. RFC 5802 has "invalid-proof" and "unknown-user" for it; CouchbaseMock says "failed", behind a
// signature of its own. Other errors say nothing of the credentials.
func refusesProof(message string) bool {
	for attribute := range strings.SplitSeq(message, ",") {
		switch attribute {
		case "e=invalid-proof", "e=unknown-user", "e=failed":
			return true
		}
	}
	return false
}
