package bench

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// conditions are what a result depends on besides the clients.
type conditions struct {
	Date     string `json:"date"`
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	Memory   int64  `json:"memory_bytes"`
	Kernel   string `json:"kernel"`
	Go       string `json:"go"`
	GOGC     string `json:"gogc"`
	Ballast  int64  `json:"ballast_bytes"`
	Rounds   int    `json:"rounds"`
	Judged   int    `json:"judged_rounds"`
	Slice    string `json:"slice"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the work tree differed from the commit
	Peer     string `json:"gocbcore,omitempty"`
}

const peerModule = "github.com/couchbase/gocbcore/v10"

func describe(p plan) conditions {
	c := conditions{
		Date: time.Now().UTC().Format(time.DateOnly), CPU: cpuModel(), Cores: runtime.NumCPU(), Memory: memoryBytes(),
		Kernel: kernel(), Go: runtime.Version(), GOGC: os.Getenv("GOGC"), Ballast: ballast,
		Rounds: p.rounds, Judged: p.judged, Slice: p.slice.String(),
	}
	if c.GOGC == "" {
		c.GOGC = "100"
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return c
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			c.Commit = s.Value
		case "vcs.modified":
			c.Modified = s.Value == "true"
		}
	}
	if c.Commit == "" { // go run does not stamp it
		c.Commit, c.Modified = commitOfTree()
	}
	for _, d := range info.Deps {
		if d.Path == peerModule {
			c.Peer = d.Version
		}
	}
	return c
}

// line is what the page of results begins with.
func (c *conditions) line() string {
	changed := ""
	if c.Modified {
		changed = " with changes"
	}
	return fmt.Sprintf("Conditions: %s; %d cores, %s, %d MiB, %s; %s, GOGC %s, ballast %d MiB per client; "+
		"gocbcore %s; couchcore %s%s; %d rounds of %s, %d where a single row is judged.",
		c.Date, c.Cores, c.CPU, c.Memory>>20, c.Kernel, c.Go, c.GOGC, c.Ballast>>20,
		c.Peer, c.Commit, changed, c.Rounds, c.Slice, c.Judged)
}

// commitOfTree asks git; without git it gives nothing.
func commitOfTree() (commit string, modified bool) {
	args := []string{"describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"}
	cmd := exec.Command("git", args...) //nolint:noctx // it reads a few files
	text, err := cmd.Output()
	if err != nil {
		return "", false
	}
	return strings.CutSuffix(strings.TrimSpace(string(text)), "-dirty")
}
