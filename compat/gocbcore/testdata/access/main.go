// Access uses gocbcore itself, alone or by a group, and does what the lines of its input say. It answers each with one
// line: "ok", or an error.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/couchbase/gocbcore/v10"
)

// client is what an Agent and an AgentGroup have.
type client interface {
	ReconfigureSecurity(opts gocbcore.ReconfigureSecurityOptions) error
	Reauthenticate(opts gocbcore.ReauthenticateOptions) error
	Close() error
}

func main() {
	kind, connect, password, external := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	reporter := gocbcore.CreateTelemetryReporter(gocbcore.TelemetryReporterConfig{
		ExternalEndpoint: external, Backoff: time.Second,
	})
	config := gocbcore.AgentConfig{BucketName: "default", TelemetryConfig: gocbcore.TelemetryConfig{
		TelemetryReporter: reporter,
	}}
	must(config.FromConnStr(connect))
	config.SecurityConfig.Auth = gocbcore.PasswordAuthProvider{Username: "Administrator", Password: password}
	config.IoConfig.UseCollections = true
	if config.SecurityConfig.UseTLS {
		config.SecurityConfig.TLSRootCAProvider = roots(os.Args[5])
	}
	var c client
	var agent *gocbcore.Agent
	var err error
	if kind == "group" {
		var group *gocbcore.AgentGroup
		group, err = gocbcore.CreateAgentGroup(&gocbcore.AgentGroupConfig{AgentConfig: config})
		must(err)
		c, agent = group, group.GetAgent("default")
	} else {
		agent, err = gocbcore.CreateAgent(&config)
		must(err)
		c = agent
	}
	fmt.Println(ready(agent))
	endReports := sync.OnceFunc(reporter.Close) // gocbcore's may be closed once
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		fmt.Println(said(do(c, agent, endReports, words[0], words[1:])))
	}
	must(c.Close())
	endReports()
}

// do does what one line says.
func do(c client, agent *gocbcore.Agent, endReports func(), what string, args []string) error {
	options := gocbcore.ReconfigureSecurityOptions{UseTLS: agent.IsSecure()}
	if options.UseTLS && len(args) > 0 && what != "set" && what != "get" {
		options.TLSRootCAProvider = roots(args[0])
	}
	switch what {
	case "set":
		return set(agent, args[0])
	case "get":
		return get(agent, args[0])
	case "query":
		return query(agent)
	case "management":
		return management(agent)
	case "roots":
		return c.ReconfigureSecurity(options)
	case "password":
		options.Auth = gocbcore.PasswordAuthProvider{Username: args[1], Password: args[2]}
		return c.ReconfigureSecurity(options)
	case "token":
		options.Auth, options.NoReconnect = gocbcore.JWTAuthProvider{Token: args[1]}, true
		options.AuthMechanisms = []gocbcore.AuthMechanism{gocbcore.OAuthBearerAuthMechanism}
		if err := c.ReconfigureSecurity(options); err != nil {
			return err
		}
		return c.Reauthenticate(gocbcore.ReauthenticateOptions{Deadline: time.Now().Add(5 * time.Second)})
	case "certificate":
		cert, err := tls.LoadX509KeyPair(args[1], args[2])
		if err != nil {
			return err
		}
		options.Auth = certificate{&cert}
		return c.ReconfigureSecurity(options)
	case "reconnect":
		agent.ForceReconnect()
		return nil
	case "no-reports":
		endReports()
		return nil
	}
	return fmt.Errorf("%q is not understood", what)
}

// roots gives the roots in a file.
func roots(file string) func() *x509.CertPool {
	pem, err := os.ReadFile(file)
	must(err)
	return func() *x509.CertPool {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		return pool
	}
}

// certificate is an AuthProvider of a client's certificate.
type certificate struct{ own *tls.Certificate }

// SupportsTLS implements gocbcore.AuthProvider.
func (certificate) SupportsTLS() bool { return true }

// SupportsNonTLS implements gocbcore.AuthProvider.
func (certificate) SupportsNonTLS() bool { return false }

// Certificate implements gocbcore.AuthProvider.
func (c certificate) Certificate(gocbcore.AuthCertRequest) (*tls.Certificate, error) {
	return c.own, nil
}

// Credentials implements gocbcore.AuthProvider.
func (certificate) Credentials(gocbcore.AuthCredsRequest) ([]gocbcore.UserPassPair, error) {
	return []gocbcore.UserPassPair{{}}, nil
}

func ready(agent *gocbcore.Agent) string {
	done := make(chan error, 1)
	_, err := agent.WaitUntilReady(time.Now().Add(5*time.Second), gocbcore.WaitUntilReadyOptions{
		ServiceTypes:  []gocbcore.ServiceType{gocbcore.MemdService},
		RetryStrategy: gocbcore.NewBestEffortRetryStrategy(nil),
	}, func(_ *gocbcore.WaitUntilReadyResult, err error) { done <- err })
	if err == nil {
		err = <-done
	}
	return said(err)
}

func set(agent *gocbcore.Agent, key string) error {
	done := make(chan error, 1)
	_, err := agent.Set(gocbcore.SetOptions{
		Key: []byte(key), Value: []byte("1"), RetryStrategy: gocbcore.NewBestEffortRetryStrategy(nil),
		Deadline: time.Now().Add(5 * time.Second),
	}, func(_ *gocbcore.StoreResult, err error) { done <- err })
	if err != nil {
		return err
	}
	return <-done
}

func get(agent *gocbcore.Agent, key string) error {
	done := make(chan error, 1)
	_, err := agent.Get(gocbcore.GetOptions{
		Key: []byte(key), RetryStrategy: gocbcore.NewBestEffortRetryStrategy(nil),
		Deadline: time.Now().Add(5 * time.Second),
	}, func(_ *gocbcore.GetResult, err error) { done <- err })
	if err != nil {
		return err
	}
	return <-done
}

func query(agent *gocbcore.Agent) error {
	done := make(chan error, 1)
	_, err := agent.N1QLQuery(gocbcore.N1QLQueryOptions{
		Payload: []byte(`{"statement":"SELECT 1"}`), Deadline: time.Now().Add(5 * time.Second),
	}, func(rows *gocbcore.N1QLRowReader, err error) {
		for err == nil && rows.NextRow() != nil {
		}
		if err == nil {
			err = rows.Err()
		}
		done <- err
	})
	if err != nil {
		return err
	}
	return <-done
}

func management(agent *gocbcore.Agent) error {
	done := make(chan error, 1)
	_, err := agent.DoHTTPRequest(&gocbcore.HTTPRequest{
		Service: gocbcore.MgmtService, Method: "GET", Path: "/pools/default/buckets/default", IsIdempotent: true,
		Deadline: time.Now().Add(5 * time.Second),
	}, func(r *gocbcore.HTTPResponse, err error) {
		if err == nil && r.StatusCode != 200 {
			err = fmt.Errorf("status %d", r.StatusCode)
		}
		if r != nil {
			must(r.Body.Close())
		}
		done <- err
	})
	if err != nil {
		return err
	}
	return <-done
}

// said is an error in one line.
func said(err error) string {
	if err == nil {
		return "ok"
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

func must(err error) {
	if err != nil {
		fmt.Println(said(err))
		os.Exit(1)
	}
}
