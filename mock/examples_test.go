package mock_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// open is a client of a cluster, for the examples.
func open(connString string, more ...func(*core.Config)) *core.Cluster {
	cfg, err := core.ParseConnString(connString)
	if err != nil {
		panic(err)
	}
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	for _, m := range more {
		m(&cfg)
	}
	cluster, err := core.Open(context.Background(), cfg)
	if err != nil {
		panic(err)
	}
	return cluster
}

// start is a cluster, for the examples; a test calls Start(t, ...).
func start(opts ...mock.Option) *mock.Cluster {
	server, err := mock.New(opts...)
	if err != nil {
		panic(err)
	}
	return server
}

// Answers of a node can be changed before they leave it.
func ExampleRewrite() {
	server := start(mock.Documents("default", map[string]any{"order::1": map[string]int{"total": 7}}))
	defer server.Close()
	cluster := open(server.ConnString())
	defer cluster.Close()
	server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1},
		mock.Rewrite(func(_, answer *memd.Packet) { answer.Value = []byte(`{"total":8}`) }))
	for range 2 {
		res, err := kv.Do(context.Background(), cluster.Bucket("default"), kv.Get{Key: []byte("order::1")})
		fmt.Println(string(res.Value), err)
	}
	// Output:
	// {"total":8} <nil>
	// {"total":7} <nil>
}

// Nodes can show a certificate that has expired; clients that connect from then on refuse them.
func ExampleCluster_SetCertificate() {
	server := start(mock.TLS())
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(server.CA())
	handshake := func() {
		nc, err := tls.Dial("tcp", server.Node(0).TLSAddr(), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
		if err == nil {
			err = nc.Close()
		}
		var invalid x509.CertificateInvalidError
		fmt.Println("expired:", errors.As(err, &invalid) && invalid.Reason == x509.Expired)
	}
	handshake()
	if err := server.SetCertificate(mock.ExpiredCertificate); err != nil {
		panic(err)
	}
	handshake()
	// Output:
	// expired: false
	// expired: true
}

// A client of the network "external" goes where the alternate address says.
func ExampleCluster_SetAlternateAddress() {
	server := start()
	defer server.Close()
	err := server.SetAlternateAddress(0, &mock.AlternateAddress{Hostname: "127.0.0.1"})
	if err != nil {
		panic(err)
	}
	cluster := open(server.ConnString() + "?network=external")
	defer cluster.Close()
	_, err = kv.Do(context.Background(), cluster.Bucket("default"), kv.Upsert{Key: []byte("k"), Value: []byte("1")})
	fmt.Println(err)
	// Output: <nil>
}

// A snapshot brings the data back between subtests.
func ExampleCluster_Snapshot() {
	server := start(mock.Documents("default", map[string]any{"order::1": map[string]int{"total": 7}}))
	defer server.Close()
	cluster := open(server.ConnString())
	defer cluster.Close()
	before := server.Snapshot()
	bucket := cluster.Bucket("default")
	if _, err := kv.Do(context.Background(), bucket, kv.Remove{Key: []byte("order::1")}); err != nil {
		panic(err)
	}
	if err := server.Restore(before); err != nil {
		panic(err)
	}
	res, err := kv.Do(context.Background(), bucket, kv.Get{Key: []byte("order::1")})
	fmt.Println(string(res.Value), err)
	// Output: {"total":7} <nil>
}
