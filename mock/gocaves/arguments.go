package gocaves

import (
	"errors"
	"flag"
	"io"
)

// Arguments are gocaves' command line.
type Arguments struct {
	ControlPort int // of the client, on loopback, that the program connects to
	ListenPort  int // on loopback, for any number of clients
	Help        bool
	MockOnly    bool // no client: one cluster until the program ends
}

// HelpText is what --help prints.
func HelpText() string {
	return `gocaves' options, one of which is needed:
  --control-port=N   connect to the client at that port of loopback, and serve it until it goes
  --listen-port=N    serve every client that connects to that port of loopback
  --mock-only        start one cluster, print its connection string, and wait
`
}

// ParseArguments reads a command line. It refuses flags that have no effect here, and one that asks for nothing.
func ParseArguments(args []string) (*Arguments, error) {
	var a Arguments
	var link, reports string
	flags := flag.NewFlagSet("gocaves", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.IntVar(&a.ControlPort, "control-port", 0, "")
	flags.IntVar(&a.ListenPort, "listen-port", 0, "")
	flags.BoolVar(&a.MockOnly, "mock-only", false, "")
	flags.StringVar(&link, "link-addr", "", "")
	flags.StringVar(&reports, "reporting-addr", "", "")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return &Arguments{Help: true}, nil
	} else if err != nil {
		return nil, err
	}
	switch {
	case link != "" || reports != "":
		return nil, errors.New("--link-addr and --reporting-addr are not supported")
	case a.MockOnly || a.ControlPort > 0 && a.ControlPort < 1<<16 || a.ListenPort > 0 && a.ListenPort < 1<<16:
		return &a, nil
	}
	return nil, errors.New("one of --control-port, --listen-port and --mock-only is needed")
}
