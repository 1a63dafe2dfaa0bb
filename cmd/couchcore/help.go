package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// exampleOf is the first thing that a command's help shows.
var exampleOf = map[string]string{
	"demo":        "couchcore demo",
	"mock":        "couchcore mock --nodes 3 --bucket default --bucket cache:ephemeral",
	"kv":          "couchcore kv get airline_10 -c couchbase://127.0.0.1:11210 -u Administrator -p -",
	"query":       "couchcore query 'SELECT name FROM airlines LIMIT 3' --json",
	"analytics":   "couchcore analytics 'SELECT COUNT(*) FROM airlines'",
	"search":      "couchcore search names '+air -mile'",
	"view":        "couchcore view airlines by_name",
	"ping":        "couchcore ping --services kv,query",
	"diagnostics": "couchcore diagnostics --json",
	"wait":        "couchcore wait --services kv,query --timeout 30s",
	"doctor":      "couchcore doctor -c couchbases://db.example.com -u app -p - -b travel",
	"packets":     "couchcore packets capture.pcapng --failures",
	"top":         "couchcore top --node 10.0.0.2:11210 --listen 127.0.0.1:11210",
	"bench":       "couchcore bench --duration 10s --concurrency 64 --value-size 256",
	"chaos":       "couchcore chaos --seeds 40 --ops 200000",
	"reasons":     "couchcore reasons KV_LOCKED",
	"explain":     "couchcore explain --service kv --op upsert --status 0x86",
	"errors":      "couchcore errors document_not_found",
	"hash":        "couchcore hash airline_10",
	"strerror":    "couchcore strerror 0x86",
	"connstr":     "couchcore connstr 'couchbases://h1,h2/travel?kv_timeout=5s'",
	"completion":  "couchcore completion bash",
	"gocbcore":    "couchcore gocbcore ../gocbcore",

	"kv get":              "couchcore kv get airline_10",
	"kv get-or-null":      "couchcore kv get-or-null airline_10",
	"kv exists":           "couchcore kv exists airline_10",
	"kv insert":           `couchcore kv insert order::1 '{"n":1}' --durability majority`,
	"kv upsert":           "couchcore kv upsert airline_10 - --expiry 1h",
	"kv replace":          `couchcore kv replace order::1 '{"n":2}' --cas 0x18e9f9d82e530000`,
	"kv remove":           "couchcore kv remove order::1",
	"kv touch":            "couchcore kv touch session::1 --expiry 30m",
	"kv get-and-touch":    "couchcore kv get-and-touch session::1 --expiry 30m",
	"kv get-and-lock":     "couchcore kv get-and-lock order::1 --lock-time 20s",
	"kv unlock":           "couchcore kv unlock order::1 --cas 0x18e9f9d82e530000",
	"kv increment":        "couchcore kv increment visits --delta 1 --initial 1",
	"kv decrement":        "couchcore kv decrement seats",
	"kv append":           "couchcore kv append log ', more'",
	"kv prepend":          "couchcore kv prepend log 'first, '",
	"kv get-replica":      "couchcore kv get-replica airline_10 --replica 1",
	"kv get-any-replica":  "couchcore kv get-any-replica airline_10",
	"kv get-all-replicas": "couchcore kv get-all-replicas airline_10",
	"kv lookup-in": "couchcore kv lookup-in airline_10 --path name --path exists:iata --path " +
		"'xattr:$document'",
	"kv mutate-in":             `couchcore kv mutate-in airline_10 --path 'name="New"' --path counter:n=1 --path remove:old`,
	"kv path-get":              "couchcore kv path-get airline_10 name",
	"kv path-exists":           "couchcore kv path-exists airline_10 iata",
	"kv path-count":            "couchcore kv path-count airline_10 routes",
	"kv path-insert":           `couchcore kv path-insert airline_10 iata '"Q5"'`,
	"kv path-upsert":           `couchcore kv path-upsert airline_10 iata '"Q5"'`,
	"kv path-replace":          `couchcore kv path-replace airline_10 iata '"Q5"'`,
	"kv path-remove":           "couchcore kv path-remove airline_10 iata",
	"kv path-array-append":     "couchcore kv path-array-append airline_10 routes 5",
	"kv path-array-prepend":    "couchcore kv path-array-prepend airline_10 routes 5",
	"kv path-array-insert":     "couchcore kv path-array-insert airline_10 'routes[1]' 5",
	"kv path-array-add-unique": "couchcore kv path-array-add-unique airline_10 routes 5",
	"kv path-counter":          "couchcore kv path-counter airline_10 n 2",
	"kv path-replace-body":     "couchcore kv path-replace-body airline_10 staged",
	"kv get-meta":              "couchcore kv get-meta airline_10",
	"kv get-ex":                "couchcore kv get-ex airline_10 --json",
	"kv get-ex-replica":        "couchcore kv get-ex-replica airline_10 --json",
	"kv get-random":            "couchcore kv get-random",
	"kv set-with-meta": "couchcore kv set-with-meta airline_10 '{}' --store-cas 0x18e9f9d82e530000 " +
		"--rev-seqno 7",
	"kv add-with-meta":    "couchcore kv add-with-meta airline_11 '{}' --store-cas 0x18e9f9d82e530000",
	"kv delete-with-meta": "couchcore kv delete-with-meta airline_10 --store-cas 0x18e9f9d82e530000 --rev-seqno 9",
	"kv scan":             "couchcore kv scan airline_ --keys-only --limit 10",
	"kv observe":          "couchcore kv observe airline_10",
	"kv observe-seqno":    "couchcore kv observe-seqno 361 --uuid 0x28f28c77765041d5",
	"kv failover-log":     "couchcore kv failover-log 361",
	"kv stats":            "couchcore kv stats --node 0",
	"kv version":          "couchcore kv version",
	"kv get-manifest":     "couchcore kv get-manifest",
	"kv get-scope-id":     "couchcore kv get-scope-id inventory",
	"kv noop":             "couchcore kv noop",
}

// helpVars are the parts of help that differ between commands, as they are for most.
var helpVars = kong.Vars{"timeout": "The time for the operation, all retries included (default: 2.5s, durable writes " +
	"10s, services 75s)."}

// helpWithExample shows how a command is used before it shows all that it can.
func helpWithExample(o kong.HelpOptions, ctx *kong.Context) error {
	if n := ctx.Selected(); n != nil {
		if _, err := fmt.Fprintf(ctx.Stdout, "For example:\n\n  %s\n\n", exampleOf[commandOf(n)]); err != nil {
			return err
		}
	}
	return kong.DefaultHelpPrinter(o, ctx)
}

// commandOf are the words of a command.
func commandOf(n *kong.Node) string {
	if n.Parent != nil && n.Parent.Type == kong.CommandNode {
		return n.Parent.Name + " " + n.Name
	}
	return n.Name
}

// parseText says what is wrong with a command line, and where there is more to read.
func parseText(err error) string {
	text := err.Error()
	var p *kong.ParseError
	if !errors.As(err, &p) || p.Context == nil {
		return text
	}
	at := p.Context.Selected()
	if at != nil && at.Leaf() {
		return fmt.Sprintf("%s: %s", commandOf(at), text)
	}
	help := "couchcore --help"
	if at != nil {
		help = "couchcore " + commandOf(at) + " --help"
	}
	switch word, ok := strings.CutPrefix(text, "unexpected argument "); {
	case ok:
		return fmt.Sprintf("there is no command %s; `%s` lists those that there are", word, help)
	case strings.HasPrefix(text, "expected one of "):
		return fmt.Sprintf("no command is given; `%s` lists those that there are", help)
	}
	return text
}
