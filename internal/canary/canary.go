package canary

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
)

// Forms are passwords in every form in which they may leave a program: as they are, in base64 (alone, and as logins and
// Basic authentication have them), in hexadecimal numbers, in an address, and as package fmt prints bytes.
type Forms [][]byte

// Add adds the forms of a user's password.
func (f *Forms) Add(user, password string) {
	for _, login := range []string{"\x00" + user + "\x00" + password, user + ":" + password} {
		*f = append(*f, []byte(base64.StdEncoding.EncodeToString([]byte(login))))
	}
	secret := []byte(password)
	*f = append(*f, secret, []byte(hex.EncodeToString(secret)), fmt.Appendf(nil, "%X", secret),
		[]byte(base64.RawStdEncoding.EncodeToString(secret)), []byte(url.QueryEscape(password)),
		bytes.Trim(fmt.Append(nil, secret), "[]"),
		bytes.TrimSuffix(bytes.TrimPrefix(fmt.Appendf(nil, "%#v", secret), []byte("[]byte{")), []byte("}")))
}

// In reports whether one of them is in a text.
func (f Forms) In(text []byte) bool {
	for _, form := range f {
		if bytes.Contains(text, form) {
			return true
		}
	}
	return false
}
