package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/internal/observe"
)

// orphanLine is a line of a log that reports orphaned responses: what has come after its call had ended.
type orphanLine map[string]struct {
	Total int64      `json:"total_count"`
	Top   []orphaned `json:"top_requests"`
}

// orphaned is one of the slowest.
type orphaned struct {
	TotalUS   int64  `json:"total_duration_us"`
	ServerUS  int64  `json:"last_server_duration_us"`
	Operation string `json:"operation_name"`
	Remote    string `json:"last_remote_socket"`
	TimeoutMS int64  `json:"timeout_ms"`
}

// orphanVerdict is what reports point to, as JSON.
type orphanVerdict struct {
	Orphans int64            `json:"orphans"`
	Nodes   map[string]int64 `json:"nodes"` // of those that the reports describe
	Slowest *string          `json:"slowest"`
	Likely  string           `json:"likely"`
}

// What reports of orphans point to.
const (
	orphanNone    = "no orphans: if connections were lost soon after the timeouts, the network or the peer had gone"
	orphanBehind  = "one slow operation held up those behind it on that node's connection"
	orphanServers = "the servers were slow: look at what they had to do, and at their slow-operation logs"
	orphanClient  = "this side or the network: a starved processor, pauses, a saturated link"
	orphanNode    = "the environment of that one node, whose own part was quick: its network, its machine"
)

const orphanMax = 64 << 20 // bytes of a log

// readOrphans says what the reports in a file point to.
func (a *app) readOrphans(file string) error {
	in := a.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return usagef("--orphans: %v", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	v := orphanVerdict{Nodes: map[string]int64{}}
	var all []orphaned
	lines := bufio.NewScanner(io.LimitReader(in, orphanMax))
	lines.Buffer(nil, orphanMax)
	for lines.Scan() {
		for _, s := range orphansOf(lines.Text()) {
			v.Orphans += s.Total
			all = append(all, s.Top...)
		}
	}
	if err := lines.Err(); err != nil {
		return usagef("--orphans: %v", err)
	}
	slowest := v.judge(all)
	if a.json {
		return a.emit(v)
	}
	if err := a.print("orphans   %d, the reports describe %d from %s", v.Orphans, len(all),
		plural(len(v.Nodes), "node")); err != nil {
		return err
	}
	if slowest != nil {
		if err := a.print("slowest   %s", *v.Slowest); err != nil {
			return err
		}
	}
	return a.print("likely    %s", v.Likely)
}

// orphansOf finds the report in a line of a log: JSON by itself, or an attribute of it, quoted or not.
func orphansOf(line string) orphanLine {
	if strings.Contains(line, observe.MsgSlow) {
		return nil // a report of the same form
	}
	var whole struct {
		Report json.RawMessage `json:"report"`
	}
	if json.Unmarshal([]byte(line), &whole) == nil && whole.Report != nil {
		line = string(whole.Report)
	}
	if _, tail, ok := strings.Cut(line, "report="); ok {
		line = tail
	}
	if q, err := strconv.QuotedPrefix(line); err == nil {
		line, _ = strconv.Unquote(q)
	}
	if i := strings.IndexByte(line, '{'); i > 0 {
		line = line[i:]
	}
	var report orphanLine
	if json.NewDecoder(strings.NewReader(line)).Decode(&report) != nil {
		return nil
	}
	return report
}

// judge enters what the described orphans point to, and gives the slowest.
func (v *orphanVerdict) judge(all []orphaned) (slowest *orphaned) {
	slowServers := 0
	for i, o := range all {
		v.Nodes[o.Remote]++
		if slowest == nil || o.TotalUS > slowest.TotalUS {
			slowest = &all[i]
		}
		if o.slowServer() {
			slowServers++
		}
	}
	switch {
	case slowest == nil:
		v.Likely = orphanNone
		return nil
	case len(v.Nodes) == 1 && slowServers > 0 && slowServers <= (len(all)+1)/2:
		v.Likely = orphanBehind
	case slowServers > len(all)/2:
		v.Likely = orphanServers
	case len(v.Nodes) > 1:
		v.Likely = orphanClient
	default:
		v.Likely = orphanNode
	}
	text := fmt.Sprintf("%s on %s: %s in all, %s of it in the server", slowest.Operation, slowest.Remote,
		short(time.Duration(slowest.TotalUS)*time.Microsecond), short(time.Duration(slowest.ServerUS)*time.Microsecond))
	v.Slowest = &text
	return slowest
}

// slowServer reports whether the server's own part would by itself explain much of the time.
func (o orphaned) slowServer() bool {
	limit := o.TotalUS
	if o.TimeoutMS > 0 {
		limit = min(limit, o.TimeoutMS*1000)
	}
	return limit > 0 && o.ServerUS*2 >= limit
}
