package sqlpp

import (
	"cmp"
	"fmt"
)

// Codes of the query service that the interpreter uses.
const (
	CodeReadOnly       = 1000
	CodeSyntax         = 3000
	CodeAmbiguous      = 3080
	CodeSemantics      = 3100
	CodeNoIndex        = 4000
	CodeDuplicateAlias = 4020
	CodeNotGrouped     = 4210
	CodeIndexExists    = 4300
	CodeExecution      = 5000
	CodeEvaluation     = 5010
	CodeInsertKeyType  = 5070
	CodeNoSystem       = 11002
	CodeNoKeyspace     = 12003
	CodeDML            = 12009
	CodeNoNamespace    = 12002
	CodeNoIndexNamed   = 12016
	CodeNoBucket       = 12020
	CodeNoScope        = 12021
	CodeTxnStatement   = 17002
	CodeTxnContext     = 17004
	CodeTxnCommit      = 17007
	CodeNoSavepoint    = 17009
	CodeDuplicateKey   = 17012
	CodeTxnInUse       = 17013
	CodeCASMismatch    = 12033
	CodeKeyNotFound    = 17014
	CodeStagedMismatch = 17015
)

// Error is an error of the query service. Reason is JSON text or empty.
type Error struct {
	Code    int
	Message string
	Reason  string

	Unsupported bool // a server does what the interpreter does not
}

func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

func fail(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Unsupported is the error for what the interpreter does not know. how names a text that the statement contains.
func Unsupported(what, how string) *Error {
	e := fail(CodeExecution, "The mock does not support %s. Script an answer: "+
		"Cluster.ScriptQuery(%q, mock.Answer{Rows: []string{...}}), or POST /v1/scripts of the control API",
		what, cmp.Or(how, what))
	e.Unsupported = true
	return e
}

// Limits are what one statement may use.
type Limits struct {
	Steps int // evaluated expressions, compared values, and the like
	Rows  int // kept at once: rows of a result, of a join, of a group
	Bytes int // of texts and arrays that functions make
}

// DefaultLimits are large for a test, and small for a machine.
var DefaultLimits = Limits{Steps: 50_000_000, Rows: 1_000_000, Bytes: 256 << 20}

// Limits of a statement's text.
const (
	MaxStatement = 1 << 20
	maxDepth     = 100 // of expressions and statements within each other
)

func (r *run) fail(e *Error) {
	if r.err == nil {
		r.err = e
	}
}

// spend takes steps from what the statement may use, and reports whether it goes on.
func (r *run) spend(steps int) bool {
	r.steps += steps
	if r.steps > r.limits.Steps {
		r.fail(fail(CodeExecution, "The mock's limit of %d steps for a statement is exceeded", r.limits.Steps))
	}
	return r.err == nil
}

// allocate takes bytes from what the statement may use, and reports whether it goes on.
func (r *run) allocate(n int) bool {
	r.bytes += n
	if r.bytes > r.limits.Bytes || n < 0 {
		r.fail(fail(CodeExecution, "The mock's limit of %d bytes for a statement is exceeded", r.limits.Bytes))
	}
	return r.err == nil
}

// fits reports whether a statement may keep so many rows.
func (r *run) fits(rows int) bool {
	if rows > r.limits.Rows {
		r.fail(fail(CodeExecution, "The mock's limit of %d rows for a statement is exceeded", r.limits.Rows))
	}
	return r.err == nil
}
