package main

import (
	"fmt"
	"strings"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

type errorsCmd struct {
	Name string `arg:"" optional:"" placeholder:"NAME|CODE" help:"An error, a retry reason or a status by its name, in any case and with or without its E; or a number: a key-value status, a code of a service, an HTTP status."`
}

// errorRow is one thing that can go wrong, as JSON. Kind and Reason are null for what has no such thing.
type errorRow struct {
	Of      string   `json:"of"` // "error", "reason", "kv", "query", "analytics", "search" or "views"
	Name    string   `json:"name"`
	Code    string   `json:"code"`
	Kind    *string  `json:"kind"`
	Reason  *string  `json:"reason"`
	Means   string   `json:"means"`
	Do      string   `json:"do"`
	Answers []string `json:"answers"`

	low, high int // numbers that name it; none when high is below low
}

// Run implements the command: with --json one object a row.
func (c *errorsCmd) Run(a *app) error {
	all := errorRows()
	rows := all
	if c.Name != "" {
		if rows = named(all, c.Name); len(rows) == 0 {
			return usagef("errors: %q is not an error, a reason, a status or a code; %s", c.Name,
				instead(alike(all, c.Name)))
		}
	}
	for _, r := range rows {
		if a.json {
			if err := a.emit(r); err != nil {
				return err
			}
		}
	}
	if c.Name == "" {
		table := [][]string{{"NAME", "MEANS"}}
		for _, r := range rows {
			if r.Of == "error" {
				table = append(table, []string{r.Name, r.Means})
			}
		}
		return a.table(table)
	}
	for i, r := range rows {
		if i > 0 {
			if err := a.print(""); err != nil {
				return err
			}
		}
		if err := a.showError(&r); err != nil {
			return err
		}
	}
	return nil
}

// showError prints one row.
func (a *app) showError(r *errorRow) error {
	lines := [][2]string{{r.Of, strings.TrimSpace(r.Code + "  " + r.Name)}}
	if r.Kind != nil && r.Of != "error" {
		lines = append(lines, [2]string{"error", *r.Kind})
	}
	if r.Reason != nil && r.Of != "reason" {
		lines = append(lines, [2]string{"retried as", *r.Reason})
	}
	lines = append(lines, [2]string{"means", r.Means}, [2]string{"do", r.Do})
	for _, answer := range r.Answers {
		lines = append(lines, [2]string{"answer", answer})
	}
	for _, l := range lines {
		if err := a.print("%s", hanging(fmt.Sprintf("%-11s ", l[0]), l[1])); err != nil {
			return err
		}
	}
	return nil
}

// errorRows are all errors, reasons, statuses and codes of services that the client knows.
func errorRows() (rows []errorRow) {
	statuses := knownStatuses()
	for k := range cberr.All() {
		t := kindTexts[k]
		rows = append(rows, errorRow{
			Of: "error", Name: k.Name(), Kind: new(k.Name()), Means: t.means, Do: t.do, Answers: answersOf(k, statuses),
			high: -1,
		})
	}
	for r := range retry.All() {
		t := reasonTexts[r]
		rows = append(rows, errorRow{
			Of: "reason", Name: r.String(), Reason: new(r.String()), Means: t.means, Do: t.do,
			Answers: answersWith(r, statuses), high: -1,
		})
	}
	for _, st := range statuses {
		rows = append(rows, statusRow(st))
	}
	for _, s := range serviceCodes {
		for _, code := range s.rows() {
			r := errorRow{
				Of: s.service, Code: s.code + " " + code.String(), Kind: new(code.Kind.Name()), Answers: []string{},
				Means: kindTexts[code.Kind].means, Do: kindTexts[code.Kind].do, low: code.Low, high: code.High,
			}
			if code.Reason != retry.Unknown {
				r.Reason, r.Do = new(code.Reason.String()), reasonTexts[code.Reason].do
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// statusRow is the row of a key-value status, for an operation that reads.
func statusRow(st memd.Status) errorRow {
	r := errorRow{
		Of: "kv", Name: st.String(), Code: statusText(st), Means: meaningOf(st), Do: doNothing, Answers: []string{},
		low: int(st), high: int(st),
	}
	d := call.Classify(memd.OpGet, st, false)
	if d.Kind != nil {
		r.Kind, r.Do = new(d.Kind.Name()), kindTexts[d.Kind].do
	}
	switch d.Class {
	case call.ClassRetry:
		r.Reason, r.Do = new(d.Reason.String()), reasonTexts[d.Reason].do
	case call.ClassAskMap:
		r.Reason = new(retry.KVErrorMapRetryIndicated.String())
	case call.ClassFail, call.ClassSuccess:
	}
	return r
}

// knownStatuses are the key-value statuses that have a name.
func knownStatuses() (all []memd.Status) {
	for st := range 1 << 16 {
		if st := memd.Status(st); st.Known() {
			all = append(all, st)
		}
	}
	return all
}

// answersOf are the answers of servers that become an error of that kind, as far as tables list them.
func answersOf(k *cberr.Kind, statuses []memd.Status) []string {
	list := []string{}
	for _, st := range statuses {
		if call.Classify(memd.OpGet, st, false).Kind == k {
			list = append(list, "kv "+statusText(st)+" "+st.String())
		}
	}
	for _, s := range serviceCodes {
		for _, row := range s.rows() {
			if row.Kind == k {
				list = append(list, s.service+" "+s.code+" "+row.String())
			}
		}
	}
	return list
}
