package sim

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strings"
	"sync"
	"time"
)

// What goes over connections with TLS is judged as what goes over plain ones: the client's end of each connection reads
// along, with the secrets that crypto/tls writes down for that (tls.Config.KeyLogWriter); so it does on connections to
// services, over which requests bring the password. It knows TLS 1.3 alone, which client and mock speak, and tells
// handshakes from what follows them by trying: RFC 8446, sections 5 and 7.

// keyring has the secrets of the connections, by name and the client's random number.
type keyring struct {
	mu      sync.Mutex
	secrets map[string][]byte
}

// Write takes a line of the log of secrets.
func (k *keyring) Write(line []byte) (int, error) {
	f := strings.Fields(string(line))
	if len(f) == 3 {
		if secret, err := hex.DecodeString(f[2]); err == nil {
			k.mu.Lock()
			k.secrets[f[0]+" "+f[1]] = secret
			k.mu.Unlock()
		}
	}
	return len(line), nil
}

func (k *keyring) secret(name, random string) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.secrets[name+" "+random]
}

// Types of records.
const (
	recordHeader      = 5
	recordHandshake   = 22
	recordApplication = 23

	encryptedAlert = recordHeader + 2 + 1 + 16 // what it says, its type, and the seal
)

// sniffer reads along with one connection.
type sniffer struct {
	keys     *keyring
	random   string // the client's
	suite    uint16
	up, down sniffed

	hello, server time.Time // when the client has begun and the server has answered; zero: not
	// when the client has ended its part of the handshake, or has ended it with an alert instead
	finished, refused time.Time
	spoke             bool // the client has sent something behind the handshake
}

// sniffed is one direction.
type sniffed struct {
	name string // of its secret
	raw  []byte
	aead cipher.AEAD
	iv   []byte
	seq  uint64
	lost bool // it can be read no more
}

func newSniffer(keys *keyring) *sniffer {
	return &sniffer{
		keys: keys, up: sniffed{name: "CLIENT_TRAFFIC_SECRET_0"}, down: sniffed{name: "SERVER_TRAFFIC_SECRET_0"},
	}
}

// recordSize is how long the record is that b begins with; 0 for anything but a record of TLS.
func recordSize(b []byte) int {
	if b[0] < 20 || b[0] > 24 || b[1] != 3 {
		return 0
	}
	return recordHeader + int(binary.BigEndian.Uint16(b[3:]))
}

// read takes what went over the connection in one direction, and gives what of that came from above TLS.
func (s *sniffer) read(d *sniffed, b []byte) (clear []byte) {
	d.raw = append(d.raw, b...)
	for len(d.raw) >= recordHeader && !d.lost {
		n := recordSize(d.raw)
		if d.lost = n == 0; d.lost || len(d.raw) < n {
			break
		}
		clear = append(clear, s.record(d, d.raw[:n])...)
		d.raw = d.raw[n:]
	}
	if len(clear) > 0 && d == &s.up {
		s.spoke = true
	}
	return clear
}

// record gives what is in one record.
func (s *sniffer) record(d *sniffed, r []byte) []byte {
	switch {
	case r[0] == recordHandshake && d == &s.up && s.random == "" && len(r) > 43:
		s.random, s.hello = hex.EncodeToString(r[11:43]), time.Now()
	case r[0] == recordHandshake && d == &s.down && len(r) > 44 && len(r) > 46+int(r[43]):
		s.suite, s.server = binary.BigEndian.Uint16(r[44+int(r[43]):]), time.Now()
	case r[0] == recordApplication:
		clear, opened := s.open(d, r)
		if d == &s.up && !opened {
			s.ends(len(r))
		}
		return clear
	}
	return nil
}

// ends notes a record of the client's part of the handshake, of which it has one: that it has finished, or an alert.
func (s *sniffer) ends(size int) {
	switch {
	case !s.finished.IsZero() || !s.refused.IsZero():
	case size == encryptedAlert:
		s.refused = time.Now()
	default:
		s.finished = time.Now()
	}
}

// ended is when the client's part of the handshake has ended; false: it has not.
func (s *sniffer) ended() (at time.Time, ok bool) {
	at = s.finished
	if at.IsZero() {
		at = s.refused
	}
	return at, !at.IsZero()
}

// open decrypts a record, unless it is one of the handshake's.
func (s *sniffer) open(d *sniffed, r []byte) (data []byte, ok bool) {
	if d.aead == nil {
		secret := s.keys.secret(d.name, s.random)
		if secret == nil {
			return nil, false
		}
		if d.lost = !d.derive(s.suite, secret); d.lost {
			return nil, false
		}
	}
	nonce := bytes.Clone(d.iv)
	for i := range 8 {
		nonce[len(nonce)-1-i] ^= byte(d.seq >> (8 * i))
	}
	clear, err := d.aead.Open(nil, nonce, r[recordHeader:], r[:recordHeader])
	if err != nil {
		d.lost = d.seq > 0
		return nil, false
	}
	d.seq++
	clear = bytes.TrimRight(clear, "\x00")
	n := len(clear) - 1
	if n < 0 || clear[n] != recordApplication {
		return nil, true
	}
	return clear[:n], true
}

// derive makes the keys of a direction; false for a suite that is not known here.
func (d *sniffed) derive(suite uint16, secret []byte) bool {
	var sum func() hash.Hash
	var length int
	switch suite {
	case 0x1301:
		sum, length = sha256.New, 16
	case 0x1302:
		sum, length = sha512.New384, 32
	default:
		return false
	}
	expand := func(label string, n int) ([]byte, error) {
		label = "tls13 " + label
		return hkdf.Expand(sum, secret, string([]byte{0, byte(n), byte(len(label))})+label+"\x00", n)
	}
	key, err := expand("key", length)
	if err != nil {
		return false
	}
	if d.iv, err = expand("iv", 12); err != nil {
		return false
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return false
	}
	d.aead, err = cipher.NewGCM(block)
	return err == nil
}
