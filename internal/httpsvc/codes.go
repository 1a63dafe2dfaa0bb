package httpsvc

import (
	"slices"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/retry"
)

// Effect says how far a statement had been executed when it failed with a code.
type Effect uint8

// Effects of a code. EffectUnknown is that of a code without a row as well.
const (
	EffectUnknown Effect = iota // the service may have executed any part of the statement
	NotCompiled                 // the service executed nothing, and the error's text may quote the statement
	NotExecuted                 // the service executed nothing
	Counted                     // the answer's metrics count what was executed, if the answer has metrics
	TimeLimit                   // a time limit ended the statement, or a part of it
)

// String says it in words, as an answer to: what had been executed?
func (e Effect) String() string {
	switch e {
	case NotCompiled, NotExecuted:
		return "nothing"
	case Counted:
		return "what the metrics count"
	case EffectUnknown, TimeLimit:
	}
	return "unknown"
}

// Code is a row of a service's table of codes: what an answer with that code means.
type Code struct {
	Low, High int                 // codes of the service's error list, or HTTP statuses, both inclusive
	Cause     int                 // the code that one of the error's causes must have; 0 asks for none
	Texts     [][]string          // the message has the parts of one of the lists, in order, in lower case; nil: any message
	If        func(e *Entry) bool // what else the answer must have; nil: nothing
	When      string              // what If asks, in words
	Kind      *cberr.Kind
	Reason    retry.Reason // for which the request may be sent again; Unknown: it may not
	Effect    Effect
}

// Codes is a service's table of codes. The first row that matches an answer counts.
type Codes []Code

// Entry is what a table of codes is asked about: an entry of an error list, or a whole answer.
type Entry struct {
	Code    int
	Message string // in lower case
	Causes  []int  // codes of the error's causes
	Again   bool   // the service says that the same request may succeed if sent again
	Scoped  bool   // the request named something that belongs to a scope
}

// Find gives the row of e. Without a row it is a failure of kind cberr.Couchbase.
func (t Codes) Find(e *Entry) Code {
	for i := range t {
		if t[i].match(e) {
			return t[i]
		}
	}
	return Code{Low: e.Code, High: e.Code, Kind: cberr.Couchbase}
}

func (c *Code) match(e *Entry) bool {
	return c.Low <= e.Code && e.Code <= c.High &&
		(c.Cause == 0 || slices.Contains(e.Causes, c.Cause)) &&
		(c.Texts == nil || slices.ContainsFunc(c.Texts, e.says)) &&
		(c.If == nil || c.If(e))
}

// says reports whether the message has the parts one after the other.
func (e *Entry) says(parts []string) bool {
	text := e.Message
	for _, p := range parts {
		var found bool
		if _, text, found = strings.Cut(text, p); !found {
			return false
		}
	}
	return true
}

// String is the row's codes and what else it asks for, in words.
func (c Code) String() string {
	text := strconv.Itoa(c.Low)
	if c.High != c.Low {
		text += " to " + strconv.Itoa(c.High)
	}
	if c.Cause != 0 {
		text += " caused by " + strconv.Itoa(c.Cause)
	}
	for i, parts := range c.Texts {
		if text += " with the text "; i > 0 {
			text = strings.TrimSuffix(text, "with the text ") + "or "
		}
		text += strconv.Quote(strings.Join(parts, " ... "))
	}
	if c.When != "" {
		text += " " + c.When
	}
	return text
}
