package testkit

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The one user that a memcached with SASL knows. Its name holds the two characters that SCRAM escapes.
const (
	MemcachedUser     = "app=1,x"
	MemcachedPassword = "secret"
)

// MemcachedServer is a running memcached that speaks the binary protocol on loopback.
type MemcachedServer struct {
	Addr string // host:port
}

// Memcached starts memcached for the calling test and stops it when the test ends. With sasl set it wants a login by
// PLAIN or SCRAM, as MemcachedUser with MemcachedPassword. It skips the test unless COUCHCORE_INTEROP is 1, and then
// fails it when a program is missing.
func Memcached(t testing.TB, sasl bool) *MemcachedServer {
	t.Helper()
	RequireInterop(t)
	program := Program(t, "memcached", "memcached")
	dir := publicDir(t)
	ports := filepath.Join(dir, "port")
	args := []string{"-B", "binary", "-l", "127.0.0.1", "-p", "-1", "-m", "32", "-t", "1"}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "nobody") // it refuses to run as root
	}
	env := append(os.Environ(), "MEMCACHED_PORT_FILENAME="+ports)
	if sasl {
		args = append(args, "-S")
		env = append(env, "SASL_CONF_PATH="+saslDir(t, dir))
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = env
	p := startProcess(t, cmd)

	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		// The file is written under another name and renamed, so what can be read is whole.
		if text, err := os.ReadFile(ports); err == nil {
			if addr, ok := memcachedPort(string(text)); ok {
				return &MemcachedServer{Addr: addr}
			}
		}
		select {
		case <-tick.C:
		case <-p.done:
			t.Fatalf("memcached ended at once:\n%s", p.output())
		case <-limit.C:
			t.Fatalf("memcached did not report its port in 10 s:\n%s", p.output())
		}
	}
}

func memcachedPort(text string) (string, bool) {
	for _, line := range strings.Split(text, "\n") {
		if port, ok := strings.CutPrefix(line, "TCP INET: "); ok {
			return net.JoinHostPort("127.0.0.1", strings.TrimSpace(port)), true
		}
	}
	return "", false
}

// publicDir is a temporary directory that the user memcached runs as can enter and write to; t.TempDir is its maker's
// alone.
func publicDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "couchcore-memcached")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// saslDir fills dir/sasl with a configuration and a user database, and returns it.
func saslDir(t testing.TB, dir string) string {
	t.Helper()
	// Debian installs it where only the administrator's path leads.
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin")
	tool := Program(t, "saslpasswd2", "sasl2-bin libsasl2-modules")
	sasl := filepath.Join(dir, "sasl")
	db := filepath.Join(sasl, "sasldb2")
	conf := fmt.Sprintf("mech_list: plain scram-sha-1 scram-sha-256 scram-sha-512\nsasldb_path: %s\n", db)
	if err := os.Mkdir(sasl, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sasl, "memcached.conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), tool, "-p", "-c", "-a", "memcached", "-f", db, MemcachedUser)
	cmd.Stdin = strings.NewReader(MemcachedPassword)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("saslpasswd2: %v\n%s", err, out)
	}
	if err := os.Chmod(db, 0o644); err != nil {
		t.Fatal(err)
	}
	return sasl
}
