package main

import "github.com/couchcore/couchcore/retry"

type reasonsCmd struct{}

// reasonRow is a reason as JSON.
type reasonRow struct {
	Name               string `json:"name"`
	NonIdempotentRetry bool   `json:"non_idempotent_retry"`
	AlwaysRetry        bool   `json:"always_retry"`
	Terminal           bool   `json:"terminal"`
	Kind               string `json:"kind"`
}

// Run implements the command: with --json one object a row.
func (c *reasonsCmd) Run(a *app) error {
	rows := [][]string{{"NAME", "NON-IDEMPOTENT", "ALWAYS", "TERMINAL", "KIND"}}
	for r := range retry.All() {
		row := reasonRow{r.String(), r.AllowsNonIdempotent(), r.AlwaysRetry(), r.Terminal(), r.Kind().String()}
		if a.json {
			if err := a.emit(row); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{row.Name, yesNo(row.NonIdempotentRetry), yesNo(row.AlwaysRetry), yesNo(row.Terminal), row.Kind})
	}
	return a.table(rows)
}
