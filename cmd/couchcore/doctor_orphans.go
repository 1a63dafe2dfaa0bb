package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/internal/observe"
)

// orphanLine is a line of a log that reports orphaned responses: what has come after its call had ended.
type orphanLine map[string]struct {
	Total uint32     `json:"total_count"`
	Top   orphanTops `json:"top_requests"`
}

// orphaned is one of the slowest.
type orphaned struct {
	TotalUS   int64  `json:"total_duration_us"`
	ServerUS  int64  `json:"last_server_duration_us"`
	Operation string `json:"operation_name"`
	Remote    string `json:"last_remote_socket"`
	TimeoutMS int64  `json:"timeout_ms"`
}

// orphanTops is what the described orphans of a report, or of a log, come to. It keeps one of them, so that a log may
// be of any size.
type orphanTops struct {
	count, slowServers int64
	nodes              map[string]int64
	slowest            *orphaned
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

const (
	orphanLineMax = 64 << 20 // bytes of a line; one with the largest sample, 65536 orphans, has half as many
	orphanNodeMax = 4096     // nodes of all reports
	orphanTextMax = 512      // bytes of a name: a node's has at most 262
	orphanTimeMax = 365 * 24 * time.Hour
)

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
	all := orphanTops{nodes: v.Nodes}
	lines, number := bufio.NewScanner(in), 1
	lines.Buffer(nil, orphanLineMax)
	for ; lines.Scan(); number++ {
		for _, s := range orphansOf(lines.Text()) {
			v.Orphans += int64(s.Total)
			if err := all.add(s.Top); err != nil {
				return usagef("--orphans: line %d: %v", number, err)
			}
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return usagef("--orphans: line %d has more than %d bytes", number, orphanLineMax-1)
	case err != nil:
		return usagef("--orphans: line %d: %v", number, err)
	}
	v.judge(all)
	if a.json {
		return a.emit(v)
	}
	if err := a.print("orphans   %d, the reports describe %d from %s", v.Orphans, all.count,
		plural(len(v.Nodes), "node")); err != nil {
		return err
	}
	if v.Slowest != nil {
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

// UnmarshalJSON reads a list of orphans one by one.
func (s *orphanTops) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	*s = orphanTops{nodes: map[string]int64{}}
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return errNoOrphan
	}
	for d.More() {
		var o orphaned
		if err := d.Decode(&o); err != nil {
			return err
		}
		if !o.plausible() {
			return errNoOrphan
		}
		s.count++
		s.nodes[o.Remote]++
		if o.slowServer() {
			s.slowServers++
		}
		if s.slowest == nil || o.TotalUS > s.slowest.TotalUS {
			s.slowest = &o
		}
	}
	return nil
}

var errNoOrphan = errors.New("not what the client writes about an orphan")

// plausible reports whether a client can have written it.
func (o orphaned) plausible() bool {
	for _, us := range []int64{o.TotalUS, o.ServerUS, o.TimeoutMS} {
		if us < 0 || us > orphanTimeMax.Microseconds() {
			return false
		}
	}
	return len(o.Remote) <= orphanTextMax && len(o.Operation) <= orphanTextMax
}

// add takes up those of another report.
func (s *orphanTops) add(more orphanTops) error {
	s.count += more.count
	s.slowServers += more.slowServers
	for node, count := range more.nodes {
		s.nodes[node] += count
	}
	if len(s.nodes) > orphanNodeMax {
		return fmt.Errorf("orphans of more than %d nodes", orphanNodeMax)
	}
	if s.slowest == nil || more.slowest != nil && more.slowest.TotalUS > s.slowest.TotalUS {
		s.slowest = more.slowest
	}
	return nil
}

// judge enters what the described orphans point to.
func (v *orphanVerdict) judge(all orphanTops) {
	switch {
	case all.slowest == nil:
		v.Likely = orphanNone
		return
	case len(v.Nodes) == 1 && all.slowServers > 0 && all.slowServers <= (all.count+1)/2:
		v.Likely = orphanBehind
	case all.slowServers > all.count/2:
		v.Likely = orphanServers
	case len(v.Nodes) > 1:
		v.Likely = orphanClient
	default:
		v.Likely = orphanNode
	}
	text := fmt.Sprintf("%s on %s: %s in all, %s of it in the server", all.slowest.Operation, all.slowest.Remote,
		short(time.Duration(all.slowest.TotalUS)*time.Microsecond),
		short(time.Duration(all.slowest.ServerUS)*time.Microsecond))
	v.Slowest = &text
}

// slowServer reports whether the server's own part would by itself explain much of the time.
func (o orphaned) slowServer() bool {
	limit := o.TotalUS
	if o.TimeoutMS > 0 {
		limit = min(limit, o.TimeoutMS*1000)
	}
	return limit > 0 && o.ServerUS*2 >= limit
}
