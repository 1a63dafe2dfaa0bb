package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Error is what an answer with a status other than 200 has, as {"error": ...}.
type Error struct {
	Status  int    `json:"-"`
	Code    string `json:"code" doc:"invalid_argument, not_found, method_not_allowed, forbidden, too_large, limit_reached or failed"`
	Field   string `json:"field,omitempty" doc:"the member, the parameter or the part of the path that is wrong"`
	Message string `json:"message"`
	Limit   int64  `json:"limit,omitempty" doc:"what is allowed at most"`
}

func (e *Error) Error() string {
	text := e.Message
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	return text
}

// errorBody is the body of such an answer.
type errorBody struct {
	Error *Error `json:"error"`
}

func invalid(field, format string, args ...any) *Error {
	return &Error{
		Status: http.StatusBadRequest, Code: "invalid_argument", Field: field, Message: fmt.Sprintf(format, args...),
	}
}

func notFound(field, format string, args ...any) *Error {
	return &Error{
		Status: http.StatusNotFound, Code: "not_found", Field: field, Message: fmt.Sprintf(format, args...),
	}
}

func tooMany(field string, limit int) *Error {
	return &Error{
		Status: http.StatusBadRequest, Code: "limit_reached", Field: field, Limit: int64(limit),
		Message: fmt.Sprintf("there are %d already", limit),
	}
}

// asError is an error of any kind as the API answers it.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{
		Status: http.StatusBadRequest, Code: "failed", Message: strings.TrimPrefix(err.Error(), "mock: "),
	}
}

// jsonError says which member of a body is wrong.
func jsonError(err error) *Error {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		return invalid(wrongType.Field, "got %s, want %s", wrongType.Value, wrongType.Type)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return invalid(strings.Trim(name, `"`), "there is no such member")
	}
	return invalid("body", "%s", strings.TrimPrefix(err.Error(), "mock: "))
}
