package httpsvc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/retry"
)

// TextLimit bounds what is read of an answer that holds no rows. Error lists come with the texts of statements and
// searches in them; a vector search that fails repeats its vectors.
const TextLimit = 1 << 20

// ErrRowsLeft is the answer to a question for the metadata before the last row was read.
var ErrRowsLeft = errors.New("the metadata comes after the last row")

// errEncoded is an answer in an encoding that was not asked for.
var errEncoded = errors.New("httpsvc: the response is compressed, which was not asked for")

// Answer is what a service has said, as far as it is known before the first row or after the last one.
type Answer struct {
	Status   int
	Header   map[string][]string
	Endpoint string            // of the node that said it
	Errors   []json.RawMessage // the error list
	Text     string            // the body of an answer whose status is not 2xx, or as much of it as was kept
	Head     []byte            // what came before the first row, as an object; the callee's to keep
	// Meta is the object without its rows, of an answer that was read to its end, or the whole body of one whose status
	// is not 2xx, if that is an object; the callee's to keep.
	Meta []byte
	Row  bool // the first row is there: Judge is told, and what it says is not heard
	Rows int  // that came before this
}

// OK reports whether the status is 2xx.
func (a *Answer) OK() bool { return a.Status >= 200 && a.Status <= 299 }

// RowService says how a service answers with rows, and what M its metadata is.
type RowService[M any] struct {
	Key    string // the attribute that holds them
	Limits Limits
	// Judge says what an answer means. It is asked about an answer without rows before anything is given out, when the
	// request may still be sent again, and about the end of one with rows.
	Judge func(a *Answer) Verdict
	// Wrap makes the service's own error of an *Error; other errors stay as they are.
	Wrap func(err error) error
	// Meta reads the answer without its rows.
	Meta func(raw []byte) M
}

// Rows are the rows of an answer, while they arrive. They are for one goroutine.
type Rows[M any] struct {
	service RowService[M]
	req     *Request
	resp    *Response
	rr      *RowReader
	row     []byte
	err     error
	meta    []byte
	ended   bool
}

// OpenRows sends a request and gives its rows as soon as there is a first one, or none is to come. Until then it is
// sent again as its failures and its strategy allow; afterwards never. The error is what Wrap makes of an *Error, or of
// what the request's Before has said. The caller closes the rows, or reads them to their end.
func OpenRows[M any](ctx context.Context, d Doer, r *Request, s RowService[M]) (Rows[M], error) {
	judge := rowJudge{key: s.Key, limits: s.Limits, service: s.Judge}
	req := *r
	req.Judge = judge.judge
	resp, err := d.Do(ctx, &req)
	if err != nil {
		return Rows[M]{}, s.Wrap(err)
	}
	return Rows[M]{service: s, req: &req, resp: resp, rr: judge.rr}, nil
}

// rowJudge looks at the answers of one request up to their first row.
type rowJudge struct {
	key     string
	limits  Limits
	service func(a *Answer) Verdict
	rr      *RowReader // of the last answer, nil when that has no rows
}

func (r *rowJudge) judge(resp *Response) (Verdict, error) {
	r.rr = nil
	if enc := header(resp, "Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return Verdict{Err: fmt.Errorf("%w: %w (%s)", cberr.DecodingFailure, errEncoded, enc), InDoubt: true}, nil
	}
	a := &Answer{Status: resp.Status, Header: resp.Header, Endpoint: resp.Endpoint}
	if !a.OK() {
		return r.judgeText(a, resp.Body), nil
	}
	limits := r.limits
	if limits.Row <= 0 {
		limits.Row = resp.RowLimit
	}
	if limits.Depth <= 0 {
		limits.Depth = resp.RowDepth
	}
	limits.Framed = resp.Framed
	r.rr = NewRowReader(resp.Body, r.key, limits)
	found := r.rr.PeekRow()
	a.Head = r.rr.Head()
	if found == FoundRow {
		a.Row = true
		r.service(a)
		return Verdict{}, nil
	}
	a.Errors, a.Meta = r.rr.Errors(), r.rr.Metadata()
	if err := r.rr.Err(); err != nil && len(a.Errors) == 0 {
		if !Malformed(err) {
			return Verdict{}, err
		}
		return Verdict{Err: fmt.Errorf("%w: %w", cberr.DecodingFailure, err), InDoubt: true}, nil
	}
	v := r.service(a)
	v.Body = a.Head
	return v, nil
}

func (r *rowJudge) judgeText(a *Answer, body io.Reader) Verdict {
	text, _ := io.ReadAll(io.LimitReader(body, TextLimit)) // the status is an answer, whatever of its text is lost
	a.Text = string(text)
	if o := Object(text); o != nil {
		a.Errors, a.Meta = List(o[errorsKey]), text
	}
	v := r.service(a)
	if v.Err == nil {
		v.Err = fmt.Errorf("%w: status %d", cberr.Couchbase, a.Status)
	}
	return v
}

func header(resp *Response, name string) string {
	if v := resp.Header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Malformed reports whether a RowReader stopped because of what it read, and not because it could not read on.
func Malformed(err error) bool {
	return errors.Is(err, ErrMalformed) || errors.Is(err, ErrShort) || errors.Is(err, ErrTooLarge) ||
		errors.Is(err, ErrTooDeep)
}

// Next goes to the next row. It blocks until there is one; false is the end, for the reason that Err gives.
func (r *Rows[M]) Next() bool {
	if r.ended {
		return false
	}
	var ok bool
	if r.row, ok = r.rr.Next(); ok {
		return true
	}
	if err := r.rr.Err(); err != nil {
		r.err = r.service.Wrap(r.failure(err))
	} else {
		r.meta = r.rr.Metadata()
		a := &Answer{
			Status: r.resp.Status, Header: r.resp.Header, Endpoint: r.resp.Endpoint, Errors: r.rr.Errors(),
			Meta: r.meta, Rows: r.rr.rows,
		}
		if v := r.service.Judge(a); v.Err != nil {
			e := r.failure(v.Err)
			e.InDoubt = e.InDoubt || v.InDoubt && !r.req.Idempotent
			e.Response = NewResponseError(r.resp, r.meta, retry.Pushback{})
			r.err = r.service.Wrap(e)
		}
	}
	r.end()
	return false
}

// Row is the present row as JSON, valid until the next call of Next or Close.
func (r *Rows[M]) Row() []byte { return r.row }

// Scan decodes the present row into v.
func (r *Rows[M]) Scan(v any) error { return json.Unmarshal(r.row, v) }

// Err is why there are no more rows: the service's error, or nil at the end of a good answer, after Close, and while
// there are rows.
func (r *Rows[M]) Err() error { return r.err }

// Meta is what the service says besides the rows, once Next has said false. Before that, and after Close, it is an
// error. An answer that ended with an error has its metadata as well.
func (r *Rows[M]) Meta() (meta M, err error) {
	switch {
	case r.meta != nil:
		return r.service.Meta(r.meta), r.err
	case r.err != nil:
		return meta, r.err
	}
	return meta, ErrRowsLeft
}

// Endpoint is the node that answers.
func (r *Rows[M]) Endpoint() string { return r.resp.Endpoint }

// RetryInfo says how the request was retried before its first row.
func (r *Rows[M]) RetryInfo() retry.Info { return r.resp.Retry }

// Close ends the reading: rows that have not come yet never will, and the service learns of it. Further calls do
// nothing.
func (r *Rows[M]) Close() error {
	r.end()
	return nil
}

func (r *Rows[M]) end() {
	if !r.ended {
		r.ended, r.row = true, nil
		r.resp.Body.Close()
		r.rr.end()
	}
}

// failure is why the rows ended early, as an error of the request.
func (r *Rows[M]) failure(err error) *Error {
	var lost *Error
	if errors.As(err, &lost) {
		return lost
	}
	e := &Error{
		Service: r.req.Service.String(), Operation: r.req.Operation, Method: r.req.Method, Path: r.req.Path,
		Endpoint: r.resp.Endpoint, Retry: r.resp.Retry, Kind: cberr.KindOf(err), Cause: err,
	}
	switch {
	case Malformed(err):
		e.Kind, e.InDoubt = cberr.DecodingFailure, !r.req.Idempotent
	case e.Kind == nil: // the body ended where the JSON goes on
		e.Kind, e.InDoubt = cberr.RequestCanceled, !r.req.Idempotent
	}
	return e
}
