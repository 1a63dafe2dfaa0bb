package mock_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// A client that verifies its servers refuses every kind of certificate but the good one, and says why.
func TestCertificatesOnDemand(t *testing.T) {
	c := mock.Start(t, mock.TLS(), mock.Nodes(2))
	shake := func(node int) error {
		nc, err := c.Dial(t.Context(), "tcp", c.Node(node).TLSAddr())
		require.NoError(t, err)
		defer nc.Close()
		cfg := c.TLSConfig()
		cfg.ServerName, _, err = net.SplitHostPort(c.Node(node).TLSAddr())
		require.NoError(t, err)
		return tls.Client(nc, cfg).HandshakeContext(t.Context())
	}
	require.NoError(t, shake(0))
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	for kind, want := range map[mock.Certificate]any{
		mock.ExpiredCertificate: &invalid, mock.FutureCertificate: &invalid, mock.OtherNameCertificate: &name,
		mock.OtherAuthorityCertificate: &authority,
	} {
		require.NoError(t, c.SetCertificate(kind, 1))
		require.ErrorAs(t, shake(1), want, "%d", kind)
		require.NoError(t, shake(0), "the other node")
	}
	require.NoError(t, c.SetCertificate(mock.GoodCertificate))
	require.NoError(t, shake(1))
	require.Error(t, c.SetCertificate(99))
	require.Error(t, c.SetCertificate(mock.GoodCertificate, 7))
	without := mock.Start(t)
	require.Error(t, without.SetCertificate(mock.GoodCertificate))
	require.Nil(t, without.TLSConfig())
}
