package mock

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// TelemetryMetric is one counter, or one part of a histogram, of a report.
type TelemetryMetric struct {
	Name   string
	Labels map[string]string
	Value  int64
}

// Label gives one of the labels; "" without it.
func (m *TelemetryMetric) Label(name string) string { return m.Labels[name] }

// telemetryKept is what was reported so far. The cluster's mutex guards it.
type telemetryKept struct {
	metrics map[string]*TelemetryMetric // by name and labels
	invalid []string                    // lines that no server would take
}

// mostTelemetry bounds the lines that are kept of each kind.
const mostTelemetry = 1 << 16

// keepTelemetry adds a report to what was reported so far.
func (c *Cluster) keepTelemetry(text string) {
	metrics, invalid := ParseTelemetry(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := map[string]bool{}
	for _, n := range c.nodes {
		nodes[n.uuid] = true
	}
	if c.telemetry.metrics == nil {
		c.telemetry.metrics = map[string]*TelemetryMetric{}
	}
	for i := range metrics {
		m := &metrics[i]
		key := m.text()
		if !nodes[m.Label("node_uuid")] {
			invalid = append(invalid, key)
			continue
		}
		if old := c.telemetry.metrics[key]; old != nil {
			old.Value += m.Value
		} else if len(c.telemetry.metrics) < mostTelemetry {
			c.telemetry.metrics[key] = m
		}
	}
	c.telemetry.invalid = append(c.telemetry.invalid, invalid...)
	c.telemetry.invalid = c.telemetry.invalid[max(0, len(c.telemetry.invalid)-mostTelemetry):]
}

// text is the metric without its value, labels in order.
func (m *TelemetryMetric) text() string {
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		labels = append(labels, name+"="+strconv.Quote(m.Labels[name]))
	}
	return m.Name + "{" + strings.Join(labels, ",") + "}"
}

// Telemetry gives the sums of all reports so far, by name and labels, in order. A server keeps the labels le and
// alt_node alone. invalid are lines that a server refuses: it cannot read them, or they are of no node of its own.
func (c *Cluster) Telemetry() (sums []TelemetryMetric, invalid []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(c.telemetry.metrics)) {
		m := *c.telemetry.metrics[key]
		m.Labels = maps.Clone(m.Labels)
		sums = append(sums, m)
	}
	return sums, slices.Clone(c.telemetry.invalid)
}

// ClearTelemetry forgets what was reported.
func (c *Cluster) ClearTelemetry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.telemetry = telemetryKept{}
}

var metricName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z_0-9]*$`)

// ParseTelemetry reads a report as ns_server does, which cuts lines at braces and labels at commas, and knows no
// escapes. invalid are the lines that it cannot read.
func ParseTelemetry(text string) (metrics []TelemetryMetric, invalid []string) {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if m, ok := parseTelemetryLine(line); ok {
			metrics = append(metrics, m)
		} else {
			invalid = append(invalid, line)
		}
	}
	return metrics, invalid
}

func parseTelemetryLine(line string) (m TelemetryMetric, ok bool) {
	name, behind, braces := strings.Cut(line, "{")
	labels := ""
	if braces {
		if labels, behind, ok = strings.Cut(behind, "}"); !ok {
			return m, false
		}
	} else {
		name, behind, _ = strings.Cut(line, " ")
	}
	m.Name, m.Labels = strings.TrimSpace(name), map[string]string{}
	if !metricName.MatchString(m.Name) {
		return m, false
	}
	for label := range strings.SplitSeq(labels, ",") {
		if label == "" {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimRight(label, " \t\r"), "=")
		if !ok || !metricName.MatchString(name) || len(value) < 2 || value[0] != '"' ||
			strings.IndexByte(value[1:], '"') != len(value)-2 {
			return m, false
		}
		m.Labels[name] = value[1 : len(value)-1]
	}
	fields := strings.Fields(behind) // the value, and perhaps a time
	if len(fields) == 0 || len(fields) > 2 {
		return m, false
	}
	v, err := strconv.ParseFloat(fields[0], 64)
	if err != nil || math.IsNaN(v) || math.Abs(v) > 1<<53 {
		return m, false
	}
	m.Value = int64(math.Round(v))
	return m, true
}
