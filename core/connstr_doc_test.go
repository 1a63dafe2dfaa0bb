package core_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/testkit"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing")

// The page about connection strings has the table of options, no more and no less.
func TestConnectionStringsAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString(connstrPage)
	also := map[string][]string{}
	for o := range core.KnownOptions() {
		if o.Key != o.Name {
			also[o.Name] = append(also[o.Name], "`"+o.Key+"`")
		}
	}
	b.WriteString("\n## Options\n| option | value | default | what it is |\n|---|---|---|---|\n")
	for o := range core.KnownOptions() {
		if o.Key != o.Name || o.Refused != "" {
			continue
		}
		kind, def, does := o.Kind.String(), "`"+o.Default+"`", o.Does
		if o.Values != nil {
			kind = strings.Join(o.Values, ", ")
		}
		if o.Default == "" {
			def = ""
		}
		if names := also[o.Name]; names != nil {
			does += "; also " + strings.Join(names, ", ")
		}
		if o.Note != "" {
			does += ". **" + o.Note + "**"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", o.Key, kind, def, does)
	}
	b.WriteString("\n## Options that are refused\n| option | why |\n|---|---|\n")
	for o := range core.KnownOptions() {
		if o.Refused != "" {
			fmt.Fprintf(&b, "| `%s` | %s |\n", o.Key, o.Refused)
		}
	}
	testkit.Golden(t, "../docs/connection-strings.md", []byte(b.String()), *update)
}

const connstrPage = `# Connection strings

    [scheme://] host[:port] {, host[:port]} [/bucket] [?option=value{&option=value}]

` + "`couchcore connstr STRING`" + ` takes a connection string apart and shows every option with its value. ` + "`core.ParseConnString`" + `
turns it into a ` + "`core.Config`" + `; settings without an option are fields of that Config.

| scheme | means |
|---|---|
| couchbase | key-value at 11210; a port in the string is the data service's |
| couchbases | the same with TLS, at 11207 |
| http | a port other than 8091 is the cluster manager's, which is asked for the map; without a port, or with 8091, the data service is tried first |
| none | as http; a port other than 8091 needs a scheme |

The client also asks the cluster manager for the map when the data service gives none: the data service refuses the
bucket for a reason that may pass, has no map for longer than config_poll_interval, or cannot be reached. Without TLS
such a request shows the password. So with the schemes couchbase and couchbases the client makes it only over TLS,
without a password, with allow_plain, or after a node has accepted the login. With ` + "`bootstrap_on=cccp`" + ` it never does.

Separate several hosts by commas or semicolons, and put IPv6 addresses into brackets. Without a host the client uses
127.0.0.1. A single host that is a name without a port may stand for DNS SRV records (_couchbase._tcp or
_couchbases._tcp and the name). The client asks their targets and the name's own address, and looks the records up again
when it reaches no node any more.

The client refuses user names and passwords in the string, the scheme https, and the schemes of the server's own
processes. It keeps unknown options, which have no effect; options that other clients know are listed below. A duration
is written as "2.5s" or "1m30s", or as a whole number of milliseconds.
`
