package management

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// home is where a browser is sent.
func (x *call) home() {
	x.w.Header().Set("Location", "/ui/index.html")
	x.answer(http.StatusMovedPermanently, "text/html", nil)
}

func (x *call) page() {
	x.answer(http.StatusOK, "text/html", []byte("<!DOCTYPE html><title>couchcore mock</title>"+
		"<p>A mock cluster. It has no console here.</p>\n"))
}

// nothing answers an empty list, of what the mock has none.
func (x *call) nothing() { x.send([]any{}) }

// accept takes what changes nothing.
func (x *call) accept() { x.done() }

func (x *call) certificate() {
	c := x.cluster()
	if c.CA == "" {
		x.notFound()
		return
	}
	x.text(http.StatusOK, c.CA)
}

// trustedCAs are the authorities that the cluster trusts. Only administrators see more than the certificate.
func (x *call) trustedCAs() {
	c, out := x.cluster(), []object{}
	if c.CA == "" {
		x.send(out)
		return
	}
	one := object{"pem": c.CA}
	if block, _ := pem.Decode([]byte(c.CA)); block != nil && (x.caller.Admin || x.caller.Looks) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			one["subject"], one["notBefore"] = cert.Subject.String(), cert.NotBefore.UTC().Format(time.RFC3339)
			one["notAfter"] = cert.NotAfter.UTC().Format(time.RFC3339)
		}
		one["id"], one["type"], one["loadTimestamp"] = 0, "generated", x.s.started.UTC().Format(time.RFC3339)
		hosts := []string{}
		for i := range c.Nodes {
			hosts = append(hosts, c.Nodes[i].Hostname)
		}
		one["nodes"], one["warnings"] = hosts, []any{}
	}
	x.send(append(out, one))
}

func (x *call) postPermissions() { x.checkPermissions(string(x.payload)) }

var sampleNames = []string{"beer-sample", "gamesim-sample", "travel-sample"}

const sampleQuotaMB = 200

func (x *call) listSamples() {
	c, out := x.cluster(), []object{}
	for _, name := range sampleNames {
		out = append(out, object{
			"name": name, "installed": c.bucket(name) != nil,
			"quotaNeeded": sampleQuotaMB * mebibyte,
		})
	}
	x.send(out)
}

// installSamples makes the buckets of sample data, and fills beer-sample; the mock has no other sample.
func (x *call) installSamples() {
	var names []json.RawMessage
	if !x.body(&names) {
		return
	}
	c := x.cluster()
	var wanted, errs []string
	for _, raw := range names {
		var sample struct {
			Name   string `json:"sample"`
			Bucket string `json:"bucket"`
		}
		if json.Unmarshal(raw, &sample.Name) != nil {
			_ = json.Unmarshal(raw, &sample) // a name that is missing is not a valid sample
		}
		known := false
		for _, name := range sampleNames {
			known = known || name == sample.Name
		}
		switch {
		case !known:
			errs = append(errs, "Sample "+sample.Name+" is not a valid sample.")
		case sample.Bucket == "" && c.bucket(sample.Name) != nil:
			errs = append(errs, "Sample bucket "+sample.Name+" is already loaded.")
		case sample.Bucket == "":
			wanted = append(wanted, sample.Name)
		}
	}
	if errs != nil {
		x.samplesAnswer(c, http.StatusBadRequest, "errors", errs)
		return
	}
	tasks := []fields{}
	for _, name := range wanted {
		set := DefaultSettings(name, "", Couchstore, c.Version)
		set.QuotaMB = sampleQuotaMB
		err := x.s.host.CreateBucket(&set, 0)
		if err == nil {
			err = x.s.host.FillSample(name)
		}
		if err != nil {
			x.refuse(err)
			return
		}
		x.s.mu.Lock()
		x.s.tasks++
		id := strconv.Itoa(x.s.tasks)
		x.s.mu.Unlock()
		tasks = append(tasks, fields{"taskId": id, "sample": name, "bucket": name})
	}
	x.samplesAnswer(c, http.StatusAccepted, "tasks", tasks)
}

// samplesAnswer has an object from 7.6 on; before, errors are a list and successes an empty one.
func (x *call) samplesAnswer(c *Cluster, status int, name string, v any) {
	switch {
	case c.Version.At(7, 6):
		x.json(status, object{name: v})
	case status == http.StatusAccepted:
		x.json(status, []any{})
	default:
		x.json(status, v)
	}
}

// listIndexes is what the console shows of query indexes; the query service knows them.
func (x *call) listIndexes() {
	x.send(object{"indexes": []any{}, "version": 1, "warnings": []any{}})
}

// writeAutoCompaction takes the thresholds of compaction, which never happens.
func (x *call) writeAutoCompaction() {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	old, _ := x.s.pages["/settings/autoCompaction"]["autoCompactionSettings"].(object)
	next := object{}
	for k, v := range old {
		next[k] = v
	}
	interval := x.s.pages["/settings/autoCompaction"]["purgeInterval"]
	if interval == nil {
		interval = 3
	}
	for name := range x.form {
		v, _ := looseValue(x.form.Get(name))
		switch {
		case name == "purgeInterval":
			days, err := strconv.ParseFloat(x.form.Get(name), 64)
			if err != nil || days < 0.01 || days > 60 {
				x.wrong(fields{name: "metadata purge interval must be a number between 0.01 and 60"})
				return
			}
			interval = days
		case !strings.HasPrefix(name, "allowedTimePeriod"):
			put(next, name, v)
		}
	}
	x.s.pages["/settings/autoCompaction"] = object{"autoCompactionSettings": next, "purgeInterval": interval}
	x.done()
}

// listLogs are events that operators read.
func (x *call) listLogs() { x.send(object{"list": []any{}}) }

func (x *call) listEvents() { x.send(object{"events": []any{}}) }

func (x *call) listProfiles() { x.send(object{"roles": object{}}) }

// joinCluster is refused: the node is a member of a cluster already.
func (x *call) joinCluster() {
	x.json(http.StatusBadRequest, []string{
		"Node is already provisioned. To join use controller/addNode api of the cluster",
	})
}

// backUpUsers are accounts and groups in the form that a restore takes, without passwords.
func (x *call) backUpUsers() {
	users, groups := []object{}, []object{}
	people := x.people()
	for i := range people {
		p := &people[i]
		users = append(users, object{
			"id": p.name, "domain": p.domain, "name": p.fullName, "roles": texts(p.grants),
			"groups": append([]string{}, p.groups...), "auth": object{},
		})
	}
	x.s.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(x.s.groups)) {
		groups = append(groups, object{"name": name, "roles": texts(x.s.groups[name].grants)})
	}
	x.s.mu.Unlock()
	v := x.version()
	x.send(object{
		"version": "1", "compat_version": fmt.Sprintf("%d.%d", v.Major, v.Minor),
		"admin": object{"id": x.cluster().Admin, "auth": object{}}, "users": users, "groups": groups,
	})
}

// texts are roles as forms have them.
func texts(grants []grant) []string {
	out := []string{}
	for _, g := range grants {
		out = append(out, g.text())
	}
	return out
}

// createReplication is refused: no cluster is known to replicate to.
func (x *call) createReplication() {
	x.wrong(fields{"toCluster": "cannot find remote cluster"})
}
