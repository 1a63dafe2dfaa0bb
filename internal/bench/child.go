package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// role is what a process of this program does. The one that was started by hand has none.
type role string

const (
	roleResponder role = "responder"
	roleClient    role = "client"
)

// ballast is held by every client's process. Without it the collector would run far more often in a client that needs
// little memory than in one that has large buffers.
const ballast = 64 << 20

// command is one line that a client's process gets; answer is the line that it gives back.
type command struct {
	Run   *job         `json:"run,omitempty"`
	Probe string       `json:"probe,omitempty"`
	How   probeOptions `json:"how"`
}

type answer struct {
	Slice  *slice             `json:"slice,omitempty"`
	Values map[string]float64 `json:"values,omitempty"`
	CPU    time.Duration      `json:"cpu_ns,omitempty"` // of the probe
	Error  string             `json:"error,omitempty"`
}

// childRole is the role that the arguments name, "" for none.
func childRole(args []string) role {
	if len(args) == 0 {
		return ""
	}
	name, _ := strings.CutPrefix(args[0], "-role=")
	if name == args[0] {
		return ""
	}
	return role(name)
}

// runChild is a process that the program has started from itself. It ends with in.
func runChild(args []string, in io.Reader, out io.Writer) error {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	as := fs.String("role", "", "")
	name := fs.String("kind", "", "")
	addrs := fs.String("addrs", "", "")
	where := fs.String("mode", string(modeCleartext), "")
	ca := fs.String("ca", "", "")
	lazy := fs.Bool("lazy", false, "")
	pin := fs.Bool("pin", false, "")
	profile := fs.String("profile", "", "")
	memory := fs.String("memprofile", "", "")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *pin {
		if err := pinToOneCore(); err != nil {
			return err
		}
	}
	if role(*as) == roleResponder {
		return runResponder(in, out)
	}
	k, known := kindNamed(*name)
	if !known {
		return fmt.Errorf("no kind is called %q", *name)
	}
	if *memory != "" {
		runtime.MemProfileRate = 64 << 10 // fine enough, and its stacks hardly show in the CPU profile
	}
	heavy := make([]byte, ballast)
	defer runtime.KeepAlive(heavy)
	t := target{addrs: strings.Split(*addrs, ","), mode: mode(*where), tls: *ca != "", ca: *ca}
	var c client
	if !*lazy {
		var err error
		if c, err = k.open(t); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		defer c.close()
	}
	stop, err := startProfile(*profile)
	if err != nil {
		return err
	}
	return errors.Join(serve(c, k, t, in, out), stop(), writeMemory(*memory))
}

// serve answers commands until in ends. The first line says that the client is connected.
func serve(c client, k kind, t target, in io.Reader, out io.Writer) error {
	enc := json.NewEncoder(out)
	if err := enc.Encode(answer{}); err != nil {
		return err
	}
	r := runner{c: c, lanes: k.lanes}
	for s := bufio.NewScanner(in); s.Scan(); {
		var cmd command
		var a answer
		switch err := json.Unmarshal(s.Bytes(), &cmd); {
		case err != nil:
			a.Error = err.Error()
		case cmd.Run != nil && c == nil, cmd.Run != nil && classOf(cmd.Run.Size) < 0:
			a.Error = "no client, or no such size"
		case cmd.Run != nil:
			done := r.run(*cmd.Run)
			a.Slice = &done
		default:
			a = runProbe(cmd, t)
		}
		if err := enc.Encode(a); err != nil {
			return err
		}
	}
	return nil
}

func runProbe(cmd command, t target) answer {
	all := allProbes()
	i := slices.IndexFunc(all, func(p probe) bool { return p.name == cmd.Probe })
	if i < 0 {
		return answer{Error: fmt.Sprintf("no probe is called %q", cmd.Probe)}
	}
	before := processCPU()
	values, err := all[i].run(t, cmd.How)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Values: values, CPU: processCPU() - before}
}

// startProfile writes a CPU profile to a file until it is stopped; no name means none.
func startProfile(name string) (stop func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// writeMemory writes the profile of all allocations; no name means none.
func writeMemory(name string) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
