package couchbasemock

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/mock"
)

// Arguments are what CouchbaseMock's command line says.
type Arguments struct {
	Host     string // to listen on; the mock listens on loopback, whatever it is
	Port     int    // of the management service; 0 for any free one
	Nodes    int
	VBuckets int
	Replicas int
	Buckets  []BucketArgument
	Monitor  string // host and port of the process that watches this one
	Docs     string // a ZIP file with documents for the bucket "default"
	Beer     bool   // a bucket beer-sample with documents, see mock.BeerSample
	CCCP     bool   // nodes give out the configuration over key-value from the start
	Debug    bool
	Help     bool
	Version  bool
}

// BucketArgument is a bucket of the command line, name:password:type.
type BucketArgument struct {
	Name, Password string
	Memcached      bool
}

// option is one of the options. set gets the argument of an option that has one.
type option struct {
	long  string
	short byte // 0 without one
	takes bool
	set   func(a *Arguments, value string) error
}

// options is the table of the options.
var options = []option{
	{"host", 'h', true, func(a *Arguments, v string) error { a.Host = v; return nil }},
	{"port", 'p', true, number(func(a *Arguments) *int { return &a.Port }, 0, 65535)},
	{"nodes", 'n', true, number(func(a *Arguments) *int { return &a.Nodes }, 1, 64)},
	{"vbuckets", 'v', true, vbuckets},
	{"replicas", 'R', true, number(func(a *Arguments) *int { return &a.Replicas }, 0, 3)},
	{"buckets", 'b', true, buckets},
	{"harakiri-monitor", 0, true, func(a *Arguments, v string) error { a.Monitor = v; return nil }},
	{"with-beer-sample", 'S', false, func(a *Arguments, _ string) error { a.Beer = true; return nil }},
	{"docs", 'D', true, func(a *Arguments, v string) error { a.Docs = v; return nil }},
	{"empty", 'E', false, func(a *Arguments, _ string) error { a.Buckets = nil; return nil }},
	{"cccp", 'c', false, func(a *Arguments, _ string) error { a.CCCP = true; return nil }},
	{"debug", 'd', false, func(a *Arguments, _ string) error { a.Debug = true; return nil }},
	{"help", '?', false, func(a *Arguments, _ string) error { a.Help = true; return nil }},
	{"version", 0, false, func(a *Arguments, _ string) error { a.Version = true; return nil }},
}

func number(field func(*Arguments) *int, least, most int) func(*Arguments, string) error {
	return func(a *Arguments, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%q, want %d to %d", v, least, most)
		}
		*field(a) = n
		return nil
	}
}

func vbuckets(a *Arguments, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > 1024 || bits.OnesCount(uint(n)) != 1 {
		return fmt.Errorf("%q, want a power of two from 1 to 1024", v)
	}
	a.VBuckets = n
	return nil
}

func buckets(a *Arguments, v string) error {
	a.Buckets = nil
	for _, text := range strings.Split(v, ",") {
		parts := strings.Split(text, ":")
		if len(parts) > 3 || parts[0] == "" {
			return fmt.Errorf("%q, want name:password:type", text)
		}
		b := BucketArgument{Name: parts[0]}
		if len(parts) > 1 {
			b.Password = parts[1]
		}
		b.Memcached = len(parts) > 2 && strings.HasPrefix(parts[2], "memcache")
		a.Buckets = append(a.Buckets, b)
	}
	return nil
}

// ParseArguments reads a command line of CouchbaseMock, without the program's name: --name value or --name=value, and
// single letters, several of them in one word.
func ParseArguments(args []string) (*Arguments, error) {
	a := &Arguments{Port: 8091, Nodes: 10, VBuckets: 1024, Replicas: 2, Buckets: []BucketArgument{{Name: "default"}}}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		var err error
		switch name, long := strings.CutPrefix(word, "--"); {
		case long:
			args, err = a.long(name, args)
		case len(word) > 1 && word[0] == '-':
			args, err = a.letters(word[1:], args)
		default:
			err = fmt.Errorf("%q is not an option", word)
		}
		if err != nil {
			return nil, fmt.Errorf("couchbasemock: %w", err)
		}
	}
	return a, nil
}

// long reads an option that is a word. It returns the words that are left.
func (a *Arguments) long(name string, args []string) ([]string, error) {
	name, value, given := strings.Cut(name, "=")
	i := slices.IndexFunc(options, func(o option) bool { return o.long == name })
	switch {
	case i < 0:
		return nil, fmt.Errorf("there is no option --%s", name)
	case given && !options[i].takes:
		return nil, fmt.Errorf("--%s takes no value", name)
	case options[i].takes && !given:
		if len(args) == 0 {
			return nil, fmt.Errorf("--%s needs a value", name)
		}
		value, args = args[0], args[1:]
	}
	return args, options[i].apply(a, value)
}

// letters reads options that are single letters.
func (a *Arguments) letters(word string, args []string) ([]string, error) {
	for j := range len(word) {
		i := slices.IndexFunc(options, func(o option) bool { return o.short == word[j] })
		if i < 0 {
			return nil, fmt.Errorf("there is no option -%c", word[j])
		}
		value := ""
		if options[i].takes {
			if len(args) == 0 {
				return nil, fmt.Errorf("-%c needs a value", word[j])
			}
			value, args = args[0], args[1:]
		}
		if err := options[i].apply(a, value); err != nil {
			return nil, err
		}
	}
	return args, nil
}

func (o *option) apply(a *Arguments, value string) error {
	if err := o.set(a, value); err != nil {
		return fmt.Errorf("--%s: %w", o.long, err)
	}
	return nil
}

// samples are the buckets that a client may have made, without a password, by POST /sampleBuckets/install.
var samples = []string{mock.BeerBucket, "gamesim-sample", "travel-sample"}

// Options are those of the cluster that the arguments describe: the administrator Administrator with the password
// "password", and for each bucket an account of its name, with its password; those of samples have an account before
// they are made. Requests over HTTP without credentials may use the buckets that have no password.
func (a *Arguments) Options() []mock.Option {
	opts := []mock.Option{
		mock.Nodes(a.Nodes), mock.Replicas(a.Replicas), mock.VBuckets(a.VBuckets), mock.Ports(a.Port),
		mock.User(mock.DefaultUser, mock.DefaultPassword), mock.NoBuckets(),
	}
	var open []string
	for _, name := range samples {
		if !slices.ContainsFunc(a.Buckets, func(b BucketArgument) bool { return b.Name == name }) {
			opts, open = append(opts, mock.User(name, "", name)), append(open, name)
			if name == mock.BeerBucket && a.Beer {
				opts = append(opts, mock.Bucket(name, 0))
			}
		}
	}
	for _, b := range a.Buckets {
		var kind []mock.BucketOption
		if b.Memcached {
			kind = append(kind, mock.Memcached())
		}
		opts = append(opts, mock.Bucket(b.Name, 0, kind...), mock.User(b.Name, b.Password, b.Name))
		if b.Password == "" {
			open = append(open, b.Name)
		}
	}
	return append(opts, mock.User("", "", open...))
}

// HelpText is what --help prints.
func HelpText() string {
	var b strings.Builder
	b.WriteString("CouchbaseMock's options:\n")
	for _, o := range options {
		letter := "   "
		if o.short != 0 {
			letter = "-" + string(o.short) + ","
		}
		value := ""
		if o.takes {
			value = " VALUE"
		}
		fmt.Fprintf(&b, "  %s --%s%s\n", letter, o.long, value)
	}
	return b.String()
}
