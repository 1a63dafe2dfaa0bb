package canary_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/canary"
)

// A password is found in every form in which a program prints it.
func TestPasswordsAreFoundInEveryForm(t *testing.T) {
	const user, password = "Administrator", "canary+7f/x"
	var forms canary.Forms
	forms.Add("other", "another one")
	forms.Add(user, password)
	secret := []byte(password)
	require.NotEqual(t, password, url.QueryEscape(password))
	for _, text := range []string{
		"it is " + password, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), fmt.Sprint(secret),
		fmt.Sprintf("%#v", secret), fmt.Sprintf("%+v", struct{ A, B any }{1, secret}),
		base64.StdEncoding.EncodeToString(secret), base64.RawStdEncoding.EncodeToString(secret),
		url.QueryEscape(password), base64.StdEncoding.EncodeToString([]byte(user + ":" + password)),
		base64.StdEncoding.EncodeToString([]byte("\x00" + user + "\x00" + password)),
	} {
		require.True(t, forms.In([]byte("before "+text+" behind")), text)
	}
	require.False(t, forms.In([]byte("canary+7f, canary%2B7f and "+user)))
}
