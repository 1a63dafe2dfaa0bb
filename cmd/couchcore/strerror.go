package main

import (
	"fmt"
	"strconv"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

type strerrorCmd struct {
	Code string `arg:"" help:"The status, decimal or hexadecimal with 0x."`
}

// meaning is what the client knows of a status, as JSON. Kind and Reason are null for a success, Reason also for what
// is no retry matter.
type meaning struct {
	Code    string  `json:"code"`
	Name    string  `json:"name"`
	Meaning string  `json:"meaning"`
	Kind    *string `json:"kind"`
	Reason  *string `json:"reason"`
}

// parseStatus reads a status code.
func parseStatus(text string) (memd.Status, error) {
	n, err := strconv.ParseUint(text, 0, 16)
	if err != nil {
		return 0, usagef("%q is not a status: write a number up to 65535, decimal or hexadecimal with 0x", text)
	}
	return memd.Status(n), nil
}

// Run implements the command.
func (c *strerrorCmd) Run(a *app) error {
	st, err := parseStatus(c.Code)
	if err != nil {
		return err
	}
	d := call.Classify(memd.OpGet, st, false)
	m := meaning{Code: statusText(st), Name: st.String(), Meaning: meaningOf(st)}
	kind, how := "success", "a result"
	if d.Kind != nil {
		m.Kind = new(d.Kind.Name())
		kind, how = d.Kind.Name(), "not retried"
	}
	switch d.Class {
	case call.ClassRetry:
		m.Reason = new(d.Reason.String())
		how = "retried as " + d.Reason.String()
		if d.Reason.AlwaysRetry() {
			how += ", whatever the strategy"
		}
	case call.ClassAskMap:
		how = "retried if the node's error map says so, as " + retry.KVErrorMapRetryIndicated.String()
	case call.ClassFail, call.ClassSuccess:
	}
	if st == memd.StatusAccess {
		how += "; at SELECT_BUCKET: " + retry.BucketAccessError.String() + ", terminal"
	}
	if st == memd.StatusAuthError {
		how += "; at SASL: " + retry.AuthenticationError.String() + ", terminal"
	}
	if a.json {
		return a.emit(m)
	}
	if err := a.print("%s %s  %s  %s", m.Code, m.Name, kind, how); err != nil {
		return err
	}
	return a.print("%s", m.Meaning)
}

func statusText(st memd.Status) string { return fmt.Sprintf("0x%02x", uint16(st)) }

func meaningOf(st memd.Status) string {
	if m := meanings[st]; m != "" {
		return m
	}
	return "not known to this client; a node's error map may describe it"
}
