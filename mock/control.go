package mock

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// The control commands of CouchbaseMock, for test suites that drive it: over HTTP on the management ports, when the
// cluster has the option ControlCommands, or over a connection, with ServeControl.

// ControlCommands makes the management ports answer CouchbaseMock's control commands under /mock/, to everyone who can
// reach them, and puts CouchbaseMock's three retry codes (0x7ff0 to 0x7ff2) into the error map.
func ControlCommands() Option { return func(s *settings) { s.control = true } }

// nodeBucket names a bucket on a node.
type nodeBucket struct {
	node   int
	bucket string
}

// controlState is what control commands have switched. The cluster's mutex guards it.
type controlState struct {
	noCCCP   map[nodeBucket]bool // the configuration is not given out over KV
	noBodies map[nodeBucket]bool // failures have no body
	noSnappy bool                // HELLO does not grant compression
	mechs    map[int][]string    // by node, instead of the cluster's
	logs     map[int][]commandAt // by node that keeps one
	opFail   map[int]*Injection  // by node
	query    []*Script
}

func newControlState() controlState {
	return controlState{
		noCCCP: map[nodeBucket]bool{}, noBodies: map[nodeBucket]bool{}, mechs: map[int][]string{},
		logs: map[int][]commandAt{}, opFail: map[int]*Injection{},
	}
}

// controlCommands are the commands by name. They get the payload, and give the answer's.
var controlCommands map[string]func(*Cluster, args) (any, error)

func init() { // the help command names them all
	controlCommands = map[string]func(*Cluster, args) (any, error){
		"FAILOVER": controlFailover, "RESPAWN": controlRespawn, "HICCUP": controlHiccup, "TRUNCATE": controlTruncate,
		"MOCKINFO": controlInfo, "HELP": controlHelp, "TIME_TRAVEL": controlTravel,
		"PERSIST": controlKey(store.Persist), "UNPERSIST": controlKey(store.Unpersist), "CACHE": controlKey(store.Cache),
		"UNCACHE": controlKey(store.Uncache), "ENDURE": controlKey(store.Persist | store.Cache),
		"PURGE": controlKey(store.Unpersist | store.Uncache), "KEYINFO": controlKeyInfo,
		"OPFAIL": controlOpFail, "SET_CCCP": controlCCCP, "GET_MCPORTS": controlPorts, "REGEN_VBCOORDS": controlRegen,
		"RESET_QUERYSTATE": controlResetQuery, "SET_QUERY_ERROR_STATE": controlQueryErrors,
		"START_CMDLOG": controlStartLog, "STOP_CMDLOG": controlStopLog, "GET_CMDLOG": controlGetLog,
		"START_RETRY_VERIFY": controlStartLog, "CHECK_RETRY_VERIFY": controlCheckRetry,
		"SET_ENHANCED_ERRORS": controlEnhanced, "SET_COMPRESSION": controlCompression,
		"SET_SASL_MECHANISMS": controlMechanisms,
	}
}

// controlAnswer is what a command answers.
type controlAnswer struct {
	Payload any    `json:"payload"`
	Status  string `json:"status"`
	Error   string `json:"error,omitempty"`
}

// Control executes one of CouchbaseMock's control commands and returns its answer as JSON: an object with "status", "ok"
// or "fail", with "payload" and, for a failure, "error". The payload is a JSON object, or nil for an empty one. The name
// may be of any case and have spaces for underscores.
func (c *Cluster) Control(command string, payload []byte) []byte {
	a := args{}
	if len(payload) > 0 && json.Unmarshal(payload, &a) != nil {
		return controlFailed(payload, fmt.Errorf("payload is no object"))
	}
	return c.control(command, a)
}

func (c *Cluster) control(command string, a args) []byte {
	run := controlCommands[commandName(command)]
	if run == nil {
		return controlFailed(a, fmt.Errorf("no such command: %s", command))
	}
	result, err := run(c, a)
	if err != nil {
		return controlFailed(a, err)
	}
	if result == nil {
		result = struct{}{}
	}
	b, _ := json.Marshal(controlAnswer{Payload: result, Status: "ok"}) // our own maps and numbers
	return b
}

func controlFailed(payload any, err error) []byte {
	if b, ok := payload.([]byte); ok {
		payload = string(b)
	}
	b, _ := json.Marshal(controlAnswer{Payload: payload, Status: "fail", Error: err.Error()}) // it was JSON before
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
	return 0, fmt.Errorf("%s is no integer", name)
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
	return "", fmt.Errorf("%s is no text", name)
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
	return nil, fmt.Errorf("%s is no list", name)
}

// servers are the nodes that a command names, or all.
func (c *Cluster) servers(a args) ([]int, error) {
	list, err := a.list("servers")
	if err != nil || list != nil {
		return list, err
	}
	for i := range c.Nodes() {
		list = append(list, i)
	}
	return list, nil
}

// nodeOf is the node that a command's "idx" names.
func (c *Cluster) nodeOf(a args) (int, error) {
	i, err := a.number("idx", nil)
	if err != nil {
		return 0, err
	}
	if _, err := c.bucketOf(a); err != nil {
		return 0, err
	}
	return int(i), nil
}

// bucketOf is the name of the bucket that a command is for.
func (c *Cluster) bucketOf(a args) (string, error) {
	name, err := a.text("bucket", DefaultBucket)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buckets[name] == nil {
		return "", fmt.Errorf("No such bucket: %s", name) //nolint:staticcheck // the text that clients know
	}
	return name, nil
}

func controlNames() []string { return slices.Sorted(maps.Keys(controlCommands)) }

func controlInfo(*Cluster, args) (any, error) {
	var ops []string
	for i, sp := range specs {
		if sp != nil {
			ops = append(ops, memd.Opcode(i).String())
		}
	}
	return map[string]any{"MEMCACHED": ops, "MOCK": controlNames()}, nil
}

// helpText is the answer of the help command: a part of it, over a connection, and all of it over HTTP.
func helpText() map[string]any {
	var names []string
	for _, n := range controlNames() {
		names = append(names, strings.ToLower(n))
	}
	return map[string]any{"Available Commands": names, "status": "help"}
}

func controlHelp(*Cluster, args) (any, error) { return map[string]any{"commands": helpText()}, nil }
