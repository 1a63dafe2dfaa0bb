package bench

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// conditions are what a result depends on besides the clients.
type conditions struct {
	Date       string            `json:"date"`
	CPU        string            `json:"cpu"`
	Cores      int               `json:"cores"`
	Memory     int64             `json:"memory_bytes"`
	Kernel     string            `json:"kernel"`
	Go         string            `json:"go"`
	GOMAXPROCS int               `json:"gomaxprocs"`
	GOGC       string            `json:"gogc"`
	Ballast    int64             `json:"ballast_bytes"`
	Rounds     int               `json:"rounds"`
	GateRounds int               `json:"gate_rounds"`
	Slice      string            `json:"slice"`
	Commit     string            `json:"commit,omitempty"`
	Modified   bool              `json:"modified,omitempty"` // the work tree differed from the commit
	Versions   map[string]string `json:"versions"`
}

func describe(p plan) conditions {
	c := conditions{
		Date: time.Now().UTC().Format(time.DateOnly), CPU: cpuModel(), Cores: runtime.NumCPU(), Memory: memoryBytes(), Kernel: kernel(),
		Go: runtime.Version(), GOMAXPROCS: runtime.GOMAXPROCS(0), GOGC: os.Getenv("GOGC"), Ballast: ballast,
		Rounds: p.rounds, GateRounds: p.gate, Slice: p.slice.String(), Versions: map[string]string{},
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
		name, _, _ := strings.Cut(strings.TrimPrefix(d.Path, "github.com/couchbase/"), "/")
		if _, known := kindNamed(name); known {
			c.Versions[name] = d.Version
		}
	}
	return c
}

// commitOfTree asks git; nothing when there is none.
func commitOfTree() (commit string, modified bool) {
	text, err := exec.Command("git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty").Output() //nolint:noctx // it reads a few files
	if err != nil {
		return "", false
	}
	return strings.CutSuffix(strings.TrimSpace(string(text)), "-dirty")
}
