package sqlpp

import (
	"encoding/json"
	"strings"
)

// Types as the query service names them in a signature (value/type.go), and what it says about what has no one type.
const (
	typeNumber, typeString, typeBoolean = "number", "string", "boolean"
	typeArray, typeObject, typeAny      = "array", "object", "json"
)

// typeOfOp is the type of expressions of a kind, as their Type methods have it. Those that are absent are of any type.
var typeOfOp = map[op]string{
	opAnd: typeBoolean, opOr: typeBoolean, opNot: typeBoolean, opCompare: typeBoolean, opLike: typeBoolean,
	opBetween: typeBoolean, opIn: typeBoolean, opWithin: typeBoolean, opIs: typeBoolean, opExists: typeBoolean,
	opQuantified: typeBoolean, opNegate: typeNumber, opArith: typeNumber, opConcat: typeString, opArray: typeArray,
	opSlice: typeArray, opSubquery: typeArray, opObject: typeObject,
}

// typeOfCall is the type of the usual functions.
var typeOfCall = callTypes()

func callTypes() map[string]string {
	out := map[string]string{}
	for kind, names := range map[string]string{
		typeNumber: `COUNT COUNTN SUM AVG MEAN MEDIAN STDDEV VARIANCE ABS CEIL FLOOR ROUND TRUNC SQRT POWER SIGN LENGTH
			RANDOM POSITION ARRAY_LENGTH ARRAY_COUNT ARRAY_SUM ARRAY_AVG ARRAY_POSITION OBJECT_LENGTH TO_NUMBER
			NOW_MILLIS CLOCK_MILLIS STR_TO_MILLIS DATE_DIFF_STR DATE_DIFF_MILLIS DATE_PART_STR DATE_PART_MILLIS`,
		typeString: `LOWER UPPER TITLE TRIM LTRIM RTRIM SUBSTR REPLACE REPEAT REVERSE SPLIT_PART TO_STRING TYPE UUID
			BASE64 BASE64_ENCODE JSON_ENCODE NOW_STR CLOCK_STR MILLIS_TO_STR DATE_FORMAT_STR DATE_ADD_STR REGEXP_REPLACE`,
		typeBoolean: `CONTAINS REGEXP_CONTAINS REGEXP_LIKE ARRAY_CONTAINS IS_ARRAY IS_ATOM IS_BOOLEAN IS_NUMBER IS_OBJECT
			IS_STRING ISARRAY ISATOM ISBOOLEAN ISNUMBER ISOBJECT ISSTRING TO_BOOLEAN`,
		typeArray: `ARRAY_AGG ARRAY_APPEND ARRAY_CONCAT ARRAY_DISTINCT ARRAY_PREPEND ARRAY_RANGE ARRAY_REMOVE
			ARRAY_REVERSE ARRAY_SORT ARRAY_FLATTEN ARRAY_UNION ARRAY_INTERSECT OBJECT_NAMES OBJECT_PAIRS OBJECT_VALUES
			SPLIT TO_ARRAY TOKENS`,
		typeObject: `META OBJECT_ADD OBJECT_PUT OBJECT_REMOVE OBJECT_CONCAT TO_OBJECT`,
	} {
		for _, name := range strings.Fields(names) {
			out[name] = kind
		}
	}
	return out
}

// kind is the type of an expression.
func (e *expr) kind() string {
	known := typeOfOp[e.op]
	switch e.op {
	case opCall:
		known = typeOfCall[strings.ToUpper(e.name)]
	case opCollect:
		known = map[string]string{"ARRAY": typeArray, "OBJECT": typeObject}[e.name]
	case opConst:
		switch e.value.(type) {
		case string:
			known = typeString
		case bool:
			known = typeBoolean
		case nil:
			known = "null"
		case missingValue:
			known = "missing"
		default:
			known = typeNumber
		}
	default: // the kind alone says it
	}
	if known == "" {
		return typeAny
	}
	return known
}

// signature says what the rows of a statement are: the type of each member by its name, one type for RAW, JSON for a
// statement about another, and null for one without rows.
func (s *statement) signature() string {
	switch {
	case s.query != nil:
		return s.query.signature()
	case s.dml != nil && s.dml.returning != nil:
		return s.dml.returning.signature()
	case s.inner != nil:
		return `"` + typeAny + `"`
	}
	return "null"
}

func (q *query) signature() string {
	first := q.parts[0]
	if first.core == nil {
		return first.sub.signature()
	}
	return first.core.signature()
}

func (c *core) signature() string {
	if c.raw {
		return `"` + c.items[0].expr.kind() + `"`
	}
	var out strings.Builder
	seen := map[string]bool{}
	for _, i := range c.items {
		name, kind := i.name, ""
		if i.expr.op == opStar || i.expr.op == opStarField {
			name, kind = "*", "*"
		} else {
			kind = i.expr.kind()
		}
		if seen[name] {
			continue
		}
		if len(seen) > 0 {
			out.WriteByte(',')
		}
		seen[name] = true
		text, _ := json.Marshal(name) // a string cannot fail
		out.Write(text)
		out.WriteString(`:"` + kind + `"`)
	}
	return "{" + out.String() + "}"
}
