package main

import (
	"io"
	"os"
	"strings"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// chosen is what a --retry or --strategy flag names: one of the client's strategies or a policy file.
type chosen struct {
	flag string // as it was given, "" for the default
	base retry.Strategy
	file []byte // the policy file, nil without one
	most int    // attempts that it may ask for; 0 is the default
}

// strategyOf reads a --retry or --strategy flag; "" is the default. A policy file is checked as a whole.
func strategyOf(name string, most int) (chosen, error) {
	if most < 0 {
		return chosen{}, usagef("--most-attempts is negative")
	}
	switch name {
	case "", "fast-fail":
		return chosen{base: retry.FastFailOnTerminalError{}}, nil
	case "best-effort":
		return chosen{flag: name, base: retry.BestEffort{}}, nil
	}
	path, ok := strings.CutPrefix(name, "@")
	if !ok {
		return chosen{}, usagef("strategy %q: there are fast-fail and best-effort, and @FILE for a policy file", name)
	}
	data, err := readPolicy(path)
	if err != nil {
		return chosen{}, usagef("policy file: %v", err)
	}
	c := chosen{flag: name, base: retry.FastFailOnTerminalError{}, file: data, most: most}
	_, err = c.policy(policy.ParseOptions{})
	return c, err
}

// readPolicy reads a file, at most a little more than a policy may be long.
func readPolicy(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, policy.MaxSize+1))
	if data == nil {
		data = []byte{}
	}
	return data, err
}

// policy is the file as the options say, nil without a file.
func (c chosen) policy(o policy.ParseOptions) (*policy.Config, error) {
	if c.file == nil {
		return nil, nil //nolint:nilnil // a nil Config is one without entries
	}
	o.MaxAttemptsCap = c.most
	cfg, err := core.ParsePolicyWith(c.file, o)
	if err != nil {
		return nil, usagef("%s: %v", strings.TrimPrefix(c.flag, "@"), err)
	}
	return cfg, nil
}

// into sets what the flag names as the client's.
func (c chosen) into(cfg *core.Config) (err error) {
	cfg.Retry.Strategy = c.base
	cfg.Retry.Policy, err = c.policy(policy.ParseOptions{})
	return err
}

// applied is what a flag means for one operation.
type applied struct {
	strategy retry.Strategy
	hedge    *policy.Hedge // instead of retries; nil for none
	name     string        // for people
	policy   string        // of the file, as a file has it; "" without one
	entry    bool          // the strategy is that policy
	file     *policy.Config
}

// of says what the client would do about an operation, its random numbers and its time being the given ones. own is the
// strategy that the call names itself.
func (c chosen) of(service retry.Service, operation string, random *loaded, own chosen) (applied, error) {
	base := c.base
	if own.base != nil {
		base = own.base
	}
	a := applied{strategy: base, name: "FastFailOnTerminalError -> BestEffort"}
	if _, best := base.(retry.BestEffort); best {
		a.name = "BestEffort"
	}
	cfg, err := c.policy(policy.ParseOptions{JitterSource: random.roll, Elapsed: random.elapsed})
	if err != nil || cfg == nil {
		return a, err
	}
	e, _ := cfg.For(service, operation)
	a.file, a.policy = cfg, e.Text
	if a.strategy, a.entry = e.StrategyOf(own.base); a.strategy == nil {
		a.strategy = cfg.Throttled(base) // the client's default
	}
	a.hedge = e.HedgeOf(own.base, nil)
	switch {
	case a.entry, a.hedge != nil:
		a.name = c.flag
	case e.Text != "":
		a.name += ", which goes before the policy of " + c.flag
	default:
		a.name += ", " + c.flag + " has no policy for it"
	}
	return a, nil
}

// budgeted reports whether retries pay to the file's token bucket.
func (a *applied) budgeted() bool { return a.entry && a.file.Bucket() != "" }

// assumes are what the answer takes for granted because it is not known.
func (a *applied) assumes() (all []string) {
	if _, _, throttled := a.file.Throttling(); throttled && a.hedge == nil {
		all = append(all, "all tokens of the node are there when the operation begins, and no other node is asked")
	}
	if a.budgeted() {
		all = append(all, "the token bucket is full when the operation begins, and no other operation uses it")
	}
	if a.hedge != nil {
		all = append(all, "there is another node, or another copy, for each attempt, with all of its tokens")
	}
	return all
}
