package httpsvc

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/cberr"
)

// ManagementError is a refusal of the cluster manager. It unwraps to its kind. Its zero value prints as well.
type ManagementError struct {
	Kind   *cberr.Kind
	Status int
	Text   string            // the answer, as far as it was kept
	Fields map[string]string // what is wrong with the fields of the request, where the answer says so
}

// Error says which status and what text the cluster manager has answered with.
func (e *ManagementError) Error() string {
	return KindText(e.Kind) + ": " + e.told()
}

func (e *ManagementError) told() string {
	s := "status " + strconv.Itoa(e.Status)
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		s += ", " + name + ": " + Shortened(e.Fields[name])
	}
	if len(e.Fields) == 0 && e.Text != "" {
		s += ", " + Shortened(e.Text)
	}
	return s
}

// Unwrap gives the kind.
func (e *ManagementError) Unwrap() error {
	if e.Kind == nil {
		return nil
	}
	return e.Kind
}

// JudgeManagement says what an answer of the cluster manager means. What it has no meaning for is left to the general
// rules for statuses.
func JudgeManagement(r *Response) (Verdict, error) {
	if r.Status >= 200 && r.Status <= 299 {
		return Verdict{}, nil
	}
	text, _ := io.ReadAll(io.LimitReader(r.Body, TextLimit)) // the status is an answer, whatever of its text is lost
	e := &ManagementError{Kind: managementKind(r.Status, string(text)), Status: r.Status, Text: string(text)}
	if r.Status == 400 {
		e.Fields = fieldsOf(text)
	}
	return Verdict{
		Err: e, General: e.Kind != cberr.RateLimited && e.Kind != cberr.QuotaLimited,
		Overload: e.Kind == cberr.RateLimited,
	}, nil
}

// fieldsOf reads {"errors":{"field":"what is wrong"}}, and the same without the outer object.
func fieldsOf(text []byte) map[string]string {
	o := Object(text)
	if inner := Object(o["errors"]); inner != nil {
		o = inner
	}
	var fields map[string]string
	for name, v := range o {
		if s := Text(v); s != "" && v[0] == '"' {
			if fields == nil {
				fields = map[string]string{}
			}
			fields[name] = s
		}
	}
	return fields
}

// managementRow is a row of the table of the cluster manager's refusals: a status, 0 for any, texts in lower case of
// which the answer holds all, and what kind of failure that is.
type managementRow struct {
	status int
	texts  []string
	kind   *cberr.Kind
}

// managementRows is the table; the first match counts. Source: SDK RFC 0054, and the texts of ns_server.
var managementRows = []managementRow{
	{401, nil, cberr.AuthenticationFailure},
	{403, nil, cberr.AuthenticationFailure},
	{429, []string{"maximum number of collections has been reached for scope"}, cberr.QuotaLimited},
	{429, []string{"limit(s) exceeded"}, cberr.RateLimited},
	{0, []string{"requested resource not found"}, cberr.BucketNotFound},
	{0, []string{"non existent bucket"}, cberr.BucketNotFound},
	{0, []string{"unknown user"}, cberr.UserNotFound},
	{0, []string{"unknown group"}, cberr.GroupNotFound},
	{0, []string{"do not exist", "group"}, cberr.GroupNotFound},
	{0, []string{"flush is disabled"}, cberr.BucketNotFlushable},
	{0, []string{"not found", "collection"}, cberr.CollectionNotFound},
	{0, []string{"not found", "scope"}, cberr.ScopeNotFound},
	{0, []string{"not found", "bucket"}, cberr.BucketNotFound},
	{0, []string{"not found", "user"}, cberr.UserNotFound},
	{0, []string{"not found", "group"}, cberr.GroupNotFound},
	{0, []string{"already exists", "collection"}, cberr.CollectionExists},
	{0, []string{"already exists", "scope"}, cberr.ScopeExists},
	{0, []string{"already exists", "bucket"}, cberr.BucketExists},
	{400, nil, cberr.InvalidArgument},
	{404, []string{"not found"}, cberr.FeatureNotAvailable},
}

func managementKind(status int, text string) *cberr.Kind {
	text = strings.ToLower(text)
	for _, row := range managementRows {
		if (row.status == 0 || row.status == status) && !slices.ContainsFunc(row.texts,
			func(t string) bool { return !strings.Contains(text, t) }) {
			return row.kind
		}
	}
	return cberr.Couchbase
}
