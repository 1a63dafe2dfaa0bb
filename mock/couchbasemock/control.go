package couchbasemock

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// Control takes control commands for one cluster. Its methods may be called from several goroutines at once.
type Control struct {
	c *mock.Cluster

	mu      sync.Mutex
	logs    map[int][]commandAt     // by node that keeps one
	unwatch func()                  // ends the watch that the logs need; nil without logs
	opFails map[int]*mock.Injection // by node
	query   []*mock.Script
}

// Attach makes a cluster take control commands: on its management ports under /mock/, from everyone who can reach them,
// and by the methods of what it returns. It puts CouchbaseMock's three retry codes (0x7ff0 to 0x7ff2) into the error
// map.
func Attach(c *mock.Cluster) (*Control, error) {
	x := &Control{c: c, logs: map[int][]commandAt{}, opFails: map[int]*mock.Injection{}}
	for _, r := range retryCodes {
		b, _ := json.Marshal(r.retry) // numbers and a text
		if err := c.AddErrorCode(r.code, "DUMMY_RETRY_"+r.retry.Strategy, []string{"auto-retry", "temp"},
			b); err != nil {
			return nil, err
		}
	}
	c.Handle(controlPath, x)
	return x, nil
}

// commands are the commands by name. They get the payload, and give the answer's.
var commands map[string]func(*Control, args) (any, error)

func init() { // the help command names them all
	commands = map[string]func(*Control, args) (any, error){
		"FAILOVER": failover, "RESPAWN": respawn, "HICCUP": hiccup, "TRUNCATE": truncate,
		"MOCKINFO": info, "HELP": help, "TIME_TRAVEL": timeTravel,
		"PERSIST": changeKey(mock.PersistCopy), "UNPERSIST": changeKey(mock.UnpersistCopy),
		"CACHE":   changeKey(mock.CacheCopy),
		"UNCACHE": changeKey(mock.UncacheCopy), "ENDURE": changeKey(mock.PersistCopy | mock.CacheCopy),
		"PURGE": changeKey(mock.UnpersistCopy | mock.UncacheCopy), "KEYINFO": keyInfo,
		"OPFAIL": opFail, "SET_CCCP": setCCCP, "GET_MCPORTS": ports, "REGEN_VBCOORDS": regenerate,
		"RESET_QUERYSTATE": resetQuery, "SET_QUERY_ERROR_STATE": queryErrors,
		"START_CMDLOG": startLog, "STOP_CMDLOG": stopLog, "GET_CMDLOG": getLog,
		"START_RETRY_VERIFY": startLog, "CHECK_RETRY_VERIFY": checkRetry,
		"SET_ENHANCED_ERRORS": setEnhancedErrors, "SET_COMPRESSION": setCompression,
		"SET_SASL_MECHANISMS": setMechanisms,
	}
}

// answer is what a command answers.
type answer struct {
	Payload any    `json:"payload"`
	Status  string `json:"status"`
	Error   string `json:"error,omitempty"`
}

// Run executes one of the commands and returns its answer as JSON: an object with "status", "ok" or "fail", with
// "payload" and, for a failure, "error". The payload is a JSON object, or nil for an empty one. The name may be of any
// case and have spaces for underscores.
func (x *Control) Run(command string, payload []byte) []byte {
	a := args{}
	if len(payload) > 0 && json.Unmarshal(payload, &a) != nil {
		return failed(payload, fmt.Errorf("payload is not an object"))
	}
	return x.run(command, a)
}

func (x *Control) run(command string, a args) []byte {
	do := commands[commandName(command)]
	if do == nil {
		return failed(a, fmt.Errorf("no such command: %s", command))
	}
	result, err := do(x, a)
	if err != nil {
		return failed(a, err)
	}
	if result == nil {
		result = struct{}{}
	}
	b, _ := json.Marshal(answer{Payload: result, Status: "ok"}) // our own maps and numbers
	return b
}

func failed(payload any, err error) []byte {
	if b, ok := payload.([]byte); ok {
		payload = string(b)
	}
	b, _ := json.Marshal(answer{Payload: payload, Status: "fail", Error: err.Error()}) // it was JSON before
	return b
}

func commandName(s string) string { return strings.ToUpper(strings.ReplaceAll(s, " ", "_")) }

// args is a command's payload.
type args map[string]any

func missing(name string) error { return fmt.Errorf("missing required field: %s", name) }

// number is a field that must be an integer; absent says what it is when it is absent, nil that it is required.
func (a args) number(name string, absent *int64) (int64, error) {
	switch v := a[name].(type) {
	case nil:
		if absent == nil {
			return 0, missing(name)
		}
		return *absent, nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), nil
		}
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%s is not an integer", name)
}

func (a args) flag(name string, absent bool) (bool, error) {
	switch v := a[name].(type) {
	case nil:
		return absent, nil
	case bool:
		return v, nil
	}
	return false, fmt.Errorf("%s is neither true nor false", name)
}

func (a args) text(name, absent string) (string, error) {
	switch v := a[name].(type) {
	case nil:
		return absent, nil
	case string:
		return v, nil
	case float64, bool:
		return fmt.Sprint(v), nil
	}
	return "", fmt.Errorf("%s is not a text", name)
}

// list is a field that is a list of integers; nil when it is absent.
func (a args) list(name string) ([]int, error) {
	switch v := a[name].(type) {
	case nil:
		return nil, nil
	case []any:
		out := []int{}
		for _, e := range v {
			n, ok := e.(float64)
			if !ok {
				return nil, fmt.Errorf("%s has something else than numbers", name)
			}
			out = append(out, int(n))
		}
		return out, nil
	case float64:
		return []int{int(v)}, nil
	}
	return nil, fmt.Errorf("%s is not a list", name)
}

// servers are the nodes that a command names, or all.
func (x *Control) servers(a args) ([]int, error) {
	list, err := a.list("servers")
	if err != nil || list != nil {
		return list, err
	}
	for i := range x.c.Nodes() {
		list = append(list, i)
	}
	return list, nil
}

// nodeOf is the node that a command's "idx" names.
func (x *Control) nodeOf(a args) (int, error) {
	i, err := a.number("idx", nil)
	if err != nil {
		return 0, err
	}
	if _, err := x.bucketOf(a); err != nil {
		return 0, err
	}
	return int(i), nil
}

// bucketOf is the name of the bucket that a command is for.
func (x *Control) bucketOf(a args) (string, error) {
	name, err := a.text("bucket", mock.DefaultBucket)
	if err != nil {
		return "", err
	}
	if name == "" || x.c.ConfigJSON(name) == nil {
		return "", fmt.Errorf("No such bucket: %s", name) //nolint:staticcheck // the text that clients know
	}
	return name, nil
}

func commandNames() []string { return slices.Sorted(maps.Keys(commands)) }

func info(*Control, args) (any, error) {
	var ops []string
	for i := range 256 {
		if op := memd.Opcode(i); mock.Executes(op) {
			ops = append(ops, op.String())
		}
	}
	return map[string]any{"MEMCACHED": ops, "MOCK": commandNames()}, nil
}

// helpText is the answer of the help command: a part of it, over a connection, and all of it over HTTP.
func helpText() map[string]any {
	var names []string
	for _, n := range commandNames() {
		names = append(names, strings.ToLower(n))
	}
	return map[string]any{"Available Commands": names, "status": "help"}
}

func help(*Control, args) (any, error) { return map[string]any{"commands": helpText()}, nil }
