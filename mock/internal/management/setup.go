package management

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// The calls by which a fresh node becomes a cluster. The mock is one from the start, so they check what they are given,
// keep what can be read back, and change nothing else.

// writePool sets the cluster's name and the services' quotas of memory.
func (x *call) writePool() {
	if len(x.form) == 0 {
		x.wrong(fields{"_": "Request should have parameters"})
		return
	}
	quotas, errs := x.quotasOf()
	for name := range x.unsupported(append(quotaFields(), "clusterName")...) {
		errs[name] = unsupportedKey
	}
	if len(errs) > 0 {
		x.wrong(errs)
		return
	}
	x.applyPool(quotas)
	x.done()
}

func (x *call) applyPool(quotas map[string]int64) {
	x.s.mu.Lock()
	for name, mb := range quotas {
		x.s.quotas[name] = mb
	}
	x.s.mu.Unlock()
	if name, ok := x.given("clusterName"); ok {
		x.s.host.SetClusterName(name)
	}
}

func quotaFields() []string {
	var names []string
	for _, q := range quotaNames {
		names = append(names, q.name)
	}
	return names
}

// quotasOf are the quotas of a form.
func (x *call) quotasOf() (map[string]int64, fields) {
	out, errs := map[string]int64{}, fields{}
	for _, q := range quotaNames {
		text, ok := x.given(q.name)
		if !ok {
			continue
		}
		mb, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil:
			errs[q.name] = "The value must be an integer"
		case mb < q.least:
			details := ""
			if q.name == "memoryQuota" {
				details = " (current total buckets quota, or at least 256MB)"
			}
			errs[q.name] = fmt.Sprintf("The %s service quota (%dMB) cannot be less than %dMB%s.", q.service, mb,
				q.least, details)
		default:
			out[q.name] = mb
		}
	}
	return out, errs
}

// wrongServices is what is wrong about a list of services.
func wrongServices(list string) string {
	for name := range strings.SplitSeq(list, ",") {
		if !slices.Contains(allowedServices, strings.TrimSpace(name)) {
			return "Unknown services: [\"" + name + "\"]"
		}
	}
	return ""
}

func (x *call) setupServices() {
	list, ok := x.given("services")
	switch {
	case !ok:
		x.wrong(fields{"services": mustBeSupplied})
	case wrongServices(list) != "":
		x.wrong(fields{"services": wrongServices(list)})
	case !slices.Contains(strings.Split(list, ","), "kv"):
		x.wrong(fields{"services": "cannot setup first cluster node without kv service"})
	default:
		x.done()
	}
}

// renameNode takes any name. The node keeps its address.
func (x *call) renameNode() {
	name, ok := x.given("hostname")
	if !ok || name == "" {
		x.json(http.StatusBadRequest, []string{"The name cannot be empty"})
		return
	}
	x.done()
}

// initNode takes the paths and the name of a node.
func (x *call) initNode() { x.done() }

// credentials are the name and the password of the administrator in a form.
func (x *call) credentials(errs fields) (name, password string) {
	for _, field := range []string{"username", "password", "port"} {
		if _, ok := x.given(field); !ok {
			errs[field] = mustBeSupplied
		}
	}
	name, password = x.form.Get("username"), x.form.Get("password")
	if _, ok := x.given("username"); ok {
		if wrong := wrongID("Username", name); wrong != "" {
			errs["username"] = wrong
		}
	}
	if _, ok := x.given("password"); ok {
		if wrong := x.s.wrongPassword(password); wrong != "" {
			errs["password"] = wrong
		}
	}
	return name, password
}

// applyCredentials lets an administrator of that name and password log in.
func (x *call) applyCredentials(name, password string) object {
	x.s.host.SetAccount(&Account{Name: name, BuiltIn: true, Rights: Rights{Admin: true}}, &password)
	c := x.cluster()
	if n := c.node("self"); n != nil {
		return object{"newBaseUri": "http://" + n.Hostname + "/"}
	}
	return object{"newBaseUri": "http://" + x.r.Host + "/"}
}

func (x *call) readWeb() {
	c, port := x.cluster(), 0
	if n := c.node("self"); n != nil {
		port = n.Ports["mgmt"]
	}
	x.send(object{"port": port, "username": c.Admin})
}

func (x *call) writeWeb() {
	errs := fields{}
	name, password := x.credentials(errs)
	if len(errs) > 0 {
		x.wrong(errs)
		return
	}
	x.send(x.applyCredentials(name, password))
}

// initCluster does in one call what the others do.
func (x *call) initCluster() {
	quotas, errs := x.quotasOf()
	name, password := x.credentials(errs)
	list, ok := x.given("services")
	switch {
	case !ok:
		errs["services"] = mustBeSupplied
	case wrongServices(list) != "":
		errs["services"] = wrongServices(list)
	}
	if mode, ok := x.given("indexerStorageMode"); ok {
		if _, wrong := oneOf("plasma", "memory_optimized")(mode); wrong != "" {
			errs["indexerStorageMode"] = wrong
		}
	}
	if len(errs) > 0 {
		x.wrong(errs)
		return
	}
	x.applyPool(quotas)
	if text, ok := x.given("sendStats"); ok {
		x.s.mu.Lock()
		x.s.pages["/settings/stats"] = object{"sendStats": text == "true"}
		x.s.mu.Unlock()
	}
	x.send(x.applyCredentials(name, password))
}

// portNames are the ports that an alternate address may name (service_ports.erl).
var portNames = []string{
	"mgmt", "mgmtSSL", "kv", "kvSSL", "capi", "capiSSL", "n1ql", "n1qlSSL", "fts", "ftsSSL", "ftsGRPC", "ftsGRPCSSL",
	"cbas", "cbasSSL", "eventingAdminPort", "eventingDebug", "eventingSSL", "indexAdmin", "indexScan", "indexHttp",
	"indexStreamInit", "indexStreamCatchup", "indexStreamMaint", "indexHttps", "projector", "backupAPI",
	"backupAPIHTTPS", "backupGRPC",
}

// setExternal gives the node an address outside of its network. Only ports of services that it runs are accepted.
func (x *call) setExternal() {
	n := x.cluster().node("self")
	if n == nil {
		x.notFound()
		return
	}
	errs := x.unsupported(append([]string{"hostname"}, portNames...)...)
	host, ok := x.given("hostname")
	host = strings.TrimSpace(host)
	switch {
	case !ok:
		errs["hostname"] = mustBeSupplied
	case host == "" || len(host) > 1000 || strings.ContainsAny(host, " /"):
		errs["hostname"] = "Invalid hostname specified. Hostname should be 1000 characters or less and either a " +
			"valid IPv4, IPv6, or FQDN"
	}
	out := &External{Hostname: host, Ports: map[string]int{}}
	var absent []string
	for _, name := range portNames {
		text, ok := x.given(name)
		if !ok {
			continue
		}
		v, wrong := isInt(1024, 65535)(text)
		if wrong != "" {
			errs[name] = wrong
			continue
		}
		if out.Ports[name] = int(v.(int64)); n.Ports[name] == 0 { // isInt's
			absent = append(absent, name)
		}
	}
	switch {
	case len(errs) > 0:
		x.wrong(errs)
	case absent != nil:
		x.text(http.StatusBadRequest, "Cannot set external ports ["+strings.Join(absent, ",")+
			"] as services are unavailable on the node.")
	default:
		x.s.host.SetExternal(x.self, out)
		x.done()
	}
}

func (x *call) dropExternal() {
	x.s.host.SetExternal(x.self, nil)
	x.done()
}
