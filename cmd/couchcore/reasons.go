package main

import (
	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

type reasonsCmd struct {
	Name string `arg:"" optional:"" placeholder:"NAME" help:"One reason, in any case: what it means, when it is set and cleared, what to do."`
}

// reasonRow is a reason as JSON.
type reasonRow struct {
	Name               string   `json:"name"`
	NonIdempotentRetry bool     `json:"non_idempotent_retry"`
	AlwaysRetry        bool     `json:"always_retry"`
	Terminal           bool     `json:"terminal"`
	Unseen             bool     `json:"unseen"`
	Kind               string   `json:"kind"`
	Means              string   `json:"means"`
	Set                string   `json:"set"`
	Cleared            string   `json:"cleared"`
	Do                 string   `json:"do"`
	Answers            []string `json:"answers"`
}

func reasonRowOf(r retry.Reason) reasonRow {
	t := reasonTexts[r]
	return reasonRow{
		r.String(), r.AllowsNonIdempotent(), r.AlwaysRetry(), r.Terminal(), r.Unseen(), r.Kind().String(),
		t.means, t.set, t.cleared, t.do, answersWith(r, knownStatuses()),
	}
}

// Run implements the command: with --json one object a row.
func (c *reasonsCmd) Run(a *app) error {
	if c.Name != "" {
		r, err := retry.Parse(c.Name)
		if err != nil {
			return usagef("reasons: %v; couchcore reasons lists them", err)
		}
		return a.showReason(reasonRowOf(r), r)
	}
	rows := [][]string{{"NAME", "NON-IDEMPOTENT", "ALWAYS", "TERMINAL", "KIND", "MEANS"}}
	for r := range retry.All() {
		row := reasonRowOf(r)
		if a.json {
			if err := a.emit(row); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{
			row.Name, yesNo(row.NonIdempotentRetry), yesNo(row.AlwaysRetry), yesNo(row.Terminal), row.Kind, row.Means,
		})
	}
	return a.table(rows)
}

// showReason prints one reason.
func (a *app) showReason(row reasonRow, r retry.Reason) error {
	if a.json {
		return a.emit(row)
	}
	lines := [][2]string{
		{"reason", row.Name + "  (" + flagsOf(r) + ")"},
		{"means", row.Means},
		{"set", row.Set},
		{"cleared", row.Cleared},
		{"do", row.Do},
	}
	for _, answer := range row.Answers {
		lines = append(lines, [2]string{"answer", answer})
	}
	for _, l := range lines {
		if err := a.print("%-11s %s", l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}

// serviceCodes are the tables of the row services: what each makes of its codes.
var serviceCodes = []struct {
	service, code string
	rows          func() []httpsvc.Code
}{
	{"query", "code", query.Codes},
	{"analytics", "code", analytics.Codes},
	{"search", "HTTP", search.Codes},
	{"views", "HTTP", views.Codes},
}

// answersWith are the answers of servers that have a reason, as far as tables list them.
func answersWith(why retry.Reason, statuses []memd.Status) []string {
	list := []string{}
	for _, st := range statuses {
		if d := call.Classify(memd.OpSet, st, false); d.Class == call.ClassRetry && d.Reason == why {
			list = append(list, "kv "+statusText(st)+" "+st.String())
		}
	}
	for _, s := range serviceCodes {
		for _, row := range s.rows() {
			if row.Reason == why && why != retry.Unknown {
				list = append(list, s.service+" "+s.code+" "+row.String())
			}
		}
	}
	return list
}
