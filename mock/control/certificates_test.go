package control_test

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// Nodes show every kind of certificate that the Go API has by its name.
func TestCertificates(t *testing.T) {
	c := start(t, mock.TLS())
	shown := func() (serial string, err error) {
		nc, err := tls.Dial("tcp", c.mock.Node(0).TLSAddr(), c.mock.TLSConfig())
		if err != nil {
			return "", err
		}
		defer nc.Close()
		return nc.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
	}
	first, err := shown()
	require.NoError(t, err)
	for kind, why := range map[string]string{
		"expired": "has expired or is not yet valid", "not_yet_valid": "has expired or is not yet valid",
		"other_name": "cannot validate certificate for 127.0.0.1", "other_authority": "unknown authority",
	} {
		c.ok("PUT", "/v1/certificates", body{"kind": kind, "nodes": []int{0}})
		_, err := shown()
		require.ErrorContains(t, err, why, kind)
	}
	c.ok("PUT", "/v1/certificates", body{"kind": "rotated"})
	second, err := shown()
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	c.ok("PUT", "/v1/certificates", body{"kind": "good"})
	last, err := shown()
	require.NoError(t, err)
	require.Equal(t, first, last)
}
