package management

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Statistics. They have the form of a server's, and of the numbers only what the mock knows: documents and bytes.

const samples = 60 // of each statistic, one a second

// bucketStats are the samples of a bucket's statistics.
func (x *call) bucketStats() {
	c, b := x.bucket()
	if b == nil {
		return
	}
	documents, bytes := c.usage(x.s, b.Name)
	now := time.Now().UnixMilli() / 1000 * 1000
	times := make([]int64, samples)
	for i := range times {
		times[i] = now - int64(samples-1-i)*1000
	}
	all := object{"timestamp": times}
	for name, value := range map[string]int{
		"curr_items": documents, "curr_items_tot": documents * (1 + b.Replicas), "mem_used": bytes,
		"ep_queue_size": 0, "ops": 0, "cmd_get": 0, "cmd_set": 0, "get_hits": 0, "get_misses": 0, "curr_connections": 0,
		"couch_docs_data_size": bytes, "couch_docs_actual_disk_size": bytes,
		"ep_mem_high_wat": int(b.QuotaMB) * mebibyte,
		"vb_active_num":   b.VBuckets, "vb_replica_num": b.VBuckets * b.Replicas,
	} {
		line := make([]int, samples)
		for i := range line {
			line[i] = value
		}
		all[name] = line
	}
	x.send(object{
		"op": object{
			"samples": all, "samplesCount": samples, "isPersistent": b.Backend != "", "lastTStamp": now,
			"interval": 1000,
		},
		"hot_keys": []any{},
	})
}

// bucketStatNodes is one statistic of a bucket by node.
func (x *call) bucketStatNodes() {
	c, b := x.bucket()
	if b == nil {
		return
	}
	now := time.Now().UnixMilli()
	byNode := object{}
	for i := range c.Nodes {
		byNode[c.Nodes[i].Hostname] = []int{0}
	}
	x.send(object{
		"samplesCount": 1, "isPersistent": b.Backend != "", "lastTStamp": now, "interval": 1000,
		"timestamp": []int64{now}, "nodeStats": byNode,
	})
}

// statsDirectory lists the statistics that there are.
func (x *call) statsDirectory() { x.send(object{"blocks": []any{}}) }

// statsRange answers a query of metrics over time: one line with one value for a metric that metrics has.
func (x *call) statsRange() {
	name, _, _ := strings.Cut(x.value("rest"), "/")
	x.send(x.rangeOf(name))
}

// statsRanges is statsRange for several statistics in one request. A label that is not the name is not looked at.
func (x *call) statsRanges() {
	var wanted []struct {
		Metric []struct {
			Label string `json:"label"`
			Value string `json:"value"`
		} `json:"metric"`
	}
	switch text := bytes.TrimSpace(x.payload); {
	case !json.Valid(text):
		x.json(http.StatusBadRequest, object{"errors": []object{{"_": "Invalid Json"}}})
		return
	case json.Unmarshal(text, &wanted) != nil || text[0] != '[':
		x.json(http.StatusBadRequest, object{"errors": []object{{"_": "A Json array must be specified."}}})
		return
	}
	out := []object{}
	for _, w := range wanted {
		name := ""
		for _, m := range w.Metric {
			if m.Label == "name" {
				name = m.Value
			}
		}
		out = append(out, x.rangeOf(name))
	}
	x.send(out)
}

func (x *call) rangeOf(name string) object {
	now := time.Now().Unix()
	lines := []object{}
	for _, m := range x.metricLines() {
		if m.name == name {
			lines = append(lines, object{"metric": m.labels, "values": [][2]any{{now, fmt.Sprint(m.value)}}})
		}
	}
	return object{"data": lines, "errors": []any{}, "startTimestamp": now, "endTimestamp": now}
}

// metric is a line of the text that Prometheus reads.
type metric struct {
	name   string
	labels fields
	value  int64
}

func (x *call) metricLines() []metric {
	c := x.cluster()
	out := []metric{
		{"cm_rest_request_enters_total", fields{"category": "system-processes"}, 1},
		{"sys_cpu_cores_available", fields{"category": "system"}, cpuCount},
		{"sys_mem_total", fields{"category": "system"}, memorySize},
		{"sys_mem_free", fields{"category": "system"}, memoryFree},
	}
	for i := range c.Buckets {
		b := &c.Buckets[i]
		documents, bytes := c.usage(x.s, b.Name)
		labels := fields{"bucket": b.Name}
		out = append(out, metric{"kv_curr_items", labels, int64(documents)},
			metric{"kv_mem_used_bytes", labels, int64(bytes)}, metric{"kv_ops", labels, 0},
			metric{"kv_num_vbuckets", labels, int64(b.VBuckets)})
	}
	return out
}

func (x *call) metrics() {
	var text strings.Builder
	last := ""
	for _, m := range x.metricLines() {
		if m.name != last {
			fmt.Fprintf(&text, "# TYPE %s gauge\n", m.name)
			last = m.name
		}
		text.WriteString(m.name + "{")
		comma := ""
		for _, label := range []string{"bucket", "category"} {
			if v, ok := m.labels[label]; ok {
				fmt.Fprintf(&text, "%s%s=%q", comma, label, v)
				comma = ","
			}
		}
		fmt.Fprintf(&text, "} %d\n", m.value)
	}
	x.answer(200, "text/plain; version=0.0.4", []byte(text.String()))
}
