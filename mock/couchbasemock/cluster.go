package couchbasemock

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// failover takes a node out of the map. It goes on accepting connections and is silent.
func failover(x *Control, a args) (any, error) {
	i, err := x.nodeOf(a)
	if err != nil {
		return nil, err
	}
	again, err := a.flag("rebalance", true)
	if err != nil {
		return nil, err
	}
	if i >= 0 && i < len(x.c.Nodes()) {
		if err := x.c.Failover(i); err != nil {
			return nil, err
		}
		if err := x.c.SetSuspended(i, true); err != nil {
			return nil, err
		}
	}
	if again {
		return nil, x.c.Rebalance()
	}
	return nil, nil
}

func respawn(x *Control, a args) (any, error) {
	i, err := x.nodeOf(a)
	if err != nil {
		return nil, err
	}
	if i >= 0 && i < len(x.c.Nodes()) {
		if err := x.c.SetSuspended(i, false); err != nil {
			return nil, err
		}
		if err := x.c.Respawn(i); err != nil {
			return nil, err
		}
	}
	return nil, x.c.Rebalance()
}

func hiccup(x *Control, a args) (any, error) {
	ms, err := a.number("msecs", nil)
	if err != nil {
		return nil, err
	}
	offset, err := a.number("offset", nil)
	if err != nil {
		return nil, err
	}
	f := mock.ConnFaults{PauseAt: int(offset), Pause: time.Duration(ms) * time.Millisecond}
	if offset <= 0 {
		f = mock.ConnFaults{}
	}
	return nil, x.c.SetConnFaults(f)
}

func truncate(x *Control, a args) (any, error) {
	limit, err := a.number("limit", nil)
	if err != nil {
		return nil, err
	}
	return nil, x.c.SetConnFaults(mock.ConnFaults{KeepOnly: int(max(0, limit))})
}

func timeTravel(x *Control, a args) (any, error) {
	s, err := a.number("Offset", nil)
	if err == nil {
		x.c.TimeTravel(time.Duration(s) * time.Second)
	}
	return nil, err
}

// opFail lets the next requests fail with a status.
func opFail(x *Control, a args) (any, error) {
	code, err := a.number("code", nil)
	if err != nil {
		return nil, err
	}
	count, err := a.number("count", nil)
	if err != nil {
		return nil, err
	}
	op, err := a.number("operation", ptr(int64(-1)))
	if err != nil {
		return nil, err
	}
	nodes, err := x.servers(a)
	if err != nil {
		return nil, err
	}
	if s := memd.Status(code); code < 0 || code > 0xffff || !s.Known() && !x.errorCode(s) {
		return nil, fmt.Errorf("Invalid error code: %d", code) //nolint:staticcheck // the text that clients know
	}
	m := mock.Match{Times: int(max(0, count))}
	if op >= 0 && op <= 0xff {
		m.Opcodes = []memd.Opcode{memd.Opcode(op)}
	}
	for _, i := range nodes {
		x.mu.Lock()
		old := x.opFails[i]
		delete(x.opFails, i)
		x.mu.Unlock()
		if old != nil {
			old.Remove()
		}
		if count == 0 || code == 0 { // success is no failure: requests are executed
			continue
		}
		m.Nodes = []int{i}
		in := x.c.Inject(m, mock.Status(memd.Status(code)))
		x.mu.Lock()
		x.opFails[i] = in
		x.mu.Unlock()
	}
	return nil, nil
}

func ptr[T any](v T) *T { return &v }

// setSwitch sets one of the switches of a bucket, or of all buckets, on nodes.
func (x *Control) setSwitch(a args, set func(bucket string, on bool, nodes ...int) error) error {
	if a["enabled"] == nil {
		return missing("enabled")
	}
	on, err := a.flag("enabled", true)
	if err != nil {
		return err
	}
	nodes, err := x.servers(a)
	if err != nil {
		return err
	}
	name := ""
	if a["bucket"] != nil {
		if name, err = x.bucketOf(a); err != nil {
			return err
		}
	}
	return set(name, on, nodes...)
}

func setCCCP(x *Control, a args) (any, error) { return nil, x.setSwitch(a, x.c.SetConfigOverKV) }

func setEnhancedErrors(x *Control, a args) (any, error) {
	return nil, x.setSwitch(a, x.c.SetErrorBodies)
}

func setCompression(x *Control, a args) (any, error) {
	if a["mode"] == nil {
		return nil, missing("mode")
	}
	mode, err := a.text("mode", "")
	if err != nil {
		return nil, err
	}
	name, err := x.bucketOf(a)
	if err != nil {
		return nil, err
	}
	if mode = strings.ToLower(mode); mode == "disabled" {
		x.c.RefuseFeatures(memd.FeatureSnappy, memd.FeatureSnappyEverywhere)
		return nil, nil
	}
	if err := x.c.SetCompression(name, mode); err != nil {
		return nil, err
	}
	x.c.RefuseFeatures()
	return nil, nil
}

func setMechanisms(x *Control, a args) (any, error) {
	list, ok := a["mechs"].([]any)
	if !ok {
		return nil, missing("mechs")
	}
	nodes, err := x.servers(a)
	if err != nil {
		return nil, err
	}
	mechs := []string{}
	for _, m := range list {
		mechs = append(mechs, fmt.Sprint(m))
	}
	x.c.SetMechanisms(mechs, nodes...)
	return nil, nil
}

// portOf is the port of an address.
func portOf(addr string) int {
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port) // 0 for what is no port
	return n
}

func ports(x *Control, a args) (any, error) {
	if _, err := x.bucketOf(a); err != nil {
		return nil, err
	}
	ports := []int{}
	for _, n := range x.c.Nodes() {
		ports = append(ports, portOf(n.Addr()))
	}
	return ports, nil
}

// regenerate gives every vbucket of a bucket a new history.
func regenerate(x *Control, a args) (any, error) {
	name, err := x.bucketOf(a)
	if err != nil {
		return nil, err
	}
	return nil, x.c.RenewHistories(name)
}

// indexGone is what a plan is answered whose index has gone.
const indexGone = 5000

func resetQuery(x *Control, _ args) (any, error) {
	x.c.FailPrepared(indexGone)
	return nil, nil
}

// queryErrors lets queries fail, or work again when it names no error.
func queryErrors(x *Control, a args) (any, error) {
	message, err := a.text("message", "")
	if err != nil {
		return nil, err
	}
	code, err := a.number("code", ptr(int64(0)))
	if err != nil {
		return nil, err
	}
	regular, err := a.flag("fail_regular", true)
	if err != nil {
		return nil, err
	}
	prepared, err := a.flag("fail_prepared", true)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	old := x.query
	x.query = nil
	x.mu.Unlock()
	for _, s := range old {
		s.Remove()
	}
	if message == "" || code == 0 {
		return nil, nil
	}
	s := x.c.Script(mock.ServiceMatch{Service: mock.QueryService, Func: func(r *mock.ServiceRequest) bool {
		plan := r.Prepared != ""
		return plan && prepared || !plan && regular
	}}, mock.Answer{Status: 500, Errors: []mock.ServiceError{{Code: int(code), Message: message}}})
	x.mu.Lock()
	x.query = append(x.query, s)
	x.mu.Unlock()
	return nil, nil
}
