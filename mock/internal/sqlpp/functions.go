package sqlpp

import (
	"iter"
	"maps"
	"math"
	"slices"
)

// function is one function of the language. Unless it sees them, arguments that are MISSING or NULL make its value.
type function struct {
	least, most int
	sees        bool
	call        func(r *run, args []any) any
}

const anyNumber = 1 << 10

// functions are what the interpreter knows, by their names in capital letters.
var functions = func() map[string]function {
	all := map[string]function{}
	for _, group := range []map[string]function{
		conditionals, typeFunctions, textFunctions, moreText, numberFunctions, moreNumbers, arrayFunctions, moreLists,
		objectFunctions, moreObjects, jsonFunctions, timeFunctions, otherFunctions,
	} {
		maps.Copy(all, group)
	}
	for name, f := range mathematics {
		all[name] = function{1, 1, false, func(_ *run, args []any) any {
			if !isNumber(args[0]) {
				return nil
			}
			return number(f(float(args[0])))
		}}
	}
	for alias, name := range otherNames {
		all[alias] = all[name]
	}
	return all
}()

// otherNames are names for functions that have another one too.
var otherNames = map[string]string{
	"COALESCE": "IFMISSINGORNULL", "NVL": "IFMISSINGORNULL", "TOSTRING": "TO_STRING", "TOSTR": "TO_STRING",
	"TO_STR": "TO_STRING", "TONUMBER": "TO_NUMBER", "TONUM": "TO_NUMBER", "TO_NUM": "TO_NUMBER",
	"TOBOOLEAN": "TO_BOOLEAN", "TOBOOL": "TO_BOOLEAN", "TO_BOOL": "TO_BOOLEAN", "TOARRAY": "TO_ARRAY",
	"TOATOM": "TO_ATOM", "TOOBJECT": "TO_OBJECT", "TOOBJ": "TO_OBJECT", "TO_OBJ": "TO_OBJECT", "TYPENAME": "TYPE",
	"TYPE_NAME": "TYPE", "ISARRAY": "IS_ARRAY", "ISATOM": "IS_ATOM", "ISBOOLEAN": "IS_BOOLEAN", "ISBOOL": "IS_BOOLEAN",
	"IS_BOOL": "IS_BOOLEAN", "ISNUMBER": "IS_NUMBER", "ISNUM": "IS_NUMBER", "IS_NUM": "IS_NUMBER",
	"ISOBJECT": "IS_OBJECT", "ISOBJ": "IS_OBJECT", "IS_OBJ": "IS_OBJECT", "ISSTRING": "IS_STRING",
	"ISSTR": "IS_STRING", "IS_STR": "IS_STRING", "IF_MISSING": "IFMISSING", "IF_NULL": "IFNULL",
	"IF_MISSING_OR_NULL": "IFMISSINGORNULL", "MISSING_IF": "MISSINGIF", "NULL_IF": "NULLIF",
	"IF_INF": "IFINF", "IF_NAN": "IFNAN", "IF_NAN_OR_INF": "IFNANORINF", "NAN_IF": "NANIF",
	"POSINF_IF": "POSINFIF", "NEGINF_IF": "NEGINFIF", "INF": "POSINF", "POS_INF": "POSINF", "NEG_INF": "NEGINF",
	"DEG": "DEGREES", "RAD": "RADIANS", "ROUND_EVEN": "ROUND", "ISBITSET": "BITTEST",
	"CEILING": "CEIL", "POW": "POWER", "RAND": "RANDOM",
	"JSON_ENCODE": "ENCODE_JSON", "JSON_DECODE": "DECODE_JSON", "BASE64": "BASE64_ENCODE",
	"ENCODE_BASE64": "BASE64_ENCODE", "DECODE_BASE64": "BASE64_DECODE",
	"SUBSTRING": "SUBSTR", "SUBSTR0": "SUBSTR", "MB_SUBSTR0": "MB_SUBSTR", "POS": "POSITION", "POSITION0": "POSITION",
	"POS0": "POSITION", "POS1": "POSITION1", "MB_POS": "MB_POSITION", "MB_POS0": "MB_POSITION",
	"MB_POSITION0": "MB_POSITION", "MB_POS1": "MB_POSITION1", "HAS_TOKEN": "CONTAINS_TOKEN",
	"REGEX_LIKE": "REGEXP_LIKE", "REGEX_CONTAINS": "REGEXP_CONTAINS", "CONTAINS_REGEX": "REGEXP_CONTAINS",
	"CONTAINS_REGEXP": "REGEXP_CONTAINS", "REGEX_REPLACE": "REGEXP_REPLACE", "REGEX_POSITION": "REGEXP_POSITION",
	"REGEXP_POSITION0": "REGEXP_POSITION", "REGEX_POSITION0": "REGEXP_POSITION", "REGEXP_POS": "REGEXP_POSITION",
	"REGEX_POS": "REGEXP_POSITION", "REGEXP_POS0": "REGEXP_POSITION", "REGEX_POS0": "REGEXP_POSITION",
	"REGEX_POSITION1": "REGEXP_POSITION1", "REGEXP_POS1": "REGEXP_POSITION1", "REGEX_POS1": "REGEXP_POSITION1",
	"ARRAY_ADD": "ARRAY_PUT", "ARRAY_UPSERT": "ARRAY_PUT", "ARRAY_POS": "ARRAY_POSITION",
	"ARRAY_SYMDIFF1": "ARRAY_SYMDIFF", "OBJECT_OUTER_PAIRS": "OBJECT_PAIRS", "OBJECT_OUTERPAIRS": "OBJECT_PAIRS",
	"OBJECT_INNER_PAIRS": "OBJECT_PAIRS", "OBJECT_INNERPAIRS": "OBJECT_PAIRS", "OBJECT_OUTER_VALUES": "OBJECT_VALUES",
	"OBJECT_OUTERVALUES": "OBJECT_VALUES", "OBJECT_INNER_VALUES": "OBJECT_VALUES",
	"OBJECT_INNERVALUES": "OBJECT_VALUES",
}

// mathematics are functions of one number.
var mathematics = map[string]func(float64) float64{
	"ABS": math.Abs, "ACOS": math.Acos, "ASIN": math.Asin, "ATAN": math.Atan, "CEIL": math.Ceil, "COS": math.Cos,
	"DEGREES": func(x float64) float64 { return x * 180 / math.Pi }, "EXP": math.Exp, "FLOOR": math.Floor,
	"LN": math.Log, "LOG": math.Log10, "RADIANS": func(x float64) float64 { return x * math.Pi / 180 },
	"SIN": math.Sin, "SQRT": math.Sqrt, "TAN": math.Tan,
	"SIGN": func(x float64) float64 {
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		}
		return 0
	},
}

// firstThat is the first argument that a predicate holds for, and NULL without one.
func firstThat(ok func(any) bool) func(*run, []any) any {
	return func(_ *run, args []any) any {
		for _, a := range args {
			if ok(a) {
				return a
			}
		}
		return nil
	}
}

// best is the largest or smallest argument that is neither MISSING nor NULL.
func best(sign int) func(*run, []any) any {
	return func(r *run, args []any) any {
		var out any
		for _, a := range args {
			if !unknown(a) && (out == nil || sign*r.compare(a, out) > 0) {
				out = a
			}
		}
		return out
	}
}

var conditionals = map[string]function{
	"IFMISSING":       {2, anyNumber, true, firstThat(func(v any) bool { return !isMissing(v) })},
	"IFMISSINGORNULL": {2, anyNumber, true, firstThat(func(v any) bool { return !unknown(v) })},
	"IFNULL":          {2, anyNumber, true, firstThat(func(v any) bool { return v != nil })},
	"GREATEST":        {2, anyNumber, true, best(1)},
	"LEAST":           {2, anyNumber, true, best(-1)},
	"NVL2": {3, 3, true, func(_ *run, args []any) any {
		if unknown(args[0]) {
			return args[2]
		}
		return args[1]
	}},
	"NULLIF": {2, 2, false, func(r *run, args []any) any {
		if r.equal(args[0], args[1]) {
			return nil
		}
		return args[0]
	}},
	"MISSINGIF": {2, 2, false, func(r *run, args []any) any {
		if r.equal(args[0], args[1]) {
			return missing
		}
		return args[0]
	}},
	"DECODE": {3, anyNumber, true, func(r *run, args []any) any {
		for i := 1; i+1 < len(args); i += 2 {
			if r.equal(args[0], args[i]) {
				return args[i+1]
			}
		}
		if len(args)%2 == 0 {
			return args[len(args)-1]
		}
		return nil
	}},
}

// isKind is a function that asks for the type of a value; MISSING and NULL stay what they are.
func isKind(kinds ...string) function {
	return function{1, 1, false, func(_ *run, args []any) any {
		for _, k := range kinds {
			if kindNames[kindOf(args[0])] == k {
				return true
			}
		}
		return false
	}}
}

var typeFunctions = map[string]function{
	"TYPE":       {1, 1, true, func(_ *run, args []any) any { return kindNames[kindOf(args[0])] }},
	"IS_ARRAY":   isKind("array"),
	"IS_ATOM":    isKind("boolean", "number", "string"),
	"IS_BOOLEAN": isKind("boolean"),
	"IS_NUMBER":  isKind("number"),
	"IS_OBJECT":  isKind("object"),
	"IS_STRING":  isKind("string"),
	"TO_STRING": {1, 1, false, func(r *run, args []any) any {
		switch v := args[0].(type) {
		case string:
			return v
		case bool, int64, float64:
			return r.encode(v)
		}
		return nil
	}},
	"TO_NUMBER": {1, 1, false, func(_ *run, args []any) any {
		switch v := args[0].(type) {
		case bool:
			if v {
				return int64(1)
			}
			return int64(0)
		case int64, float64:
			return v
		case string:
			return parseNumber(v)
		}
		return nil
	}},
	"TO_BOOLEAN": {1, 1, false, func(_ *run, args []any) any { return truth(args[0]) }},
	"TO_ARRAY": {1, 1, false, func(_ *run, args []any) any {
		if a, ok := args[0].([]any); ok {
			return a
		}
		return []any{args[0]}
	}},
}

var numberFunctions = map[string]function{
	"PI": {0, 0, false, func(*run, []any) any { return math.Pi }},
	"E":  {0, 0, false, func(*run, []any) any { return math.E }},
	"POWER": {2, 2, false, func(_ *run, args []any) any {
		if !isNumber(args[0]) || !isNumber(args[1]) {
			return nil
		}
		return number(math.Pow(float(args[0]), float(args[1])))
	}},
	"ROUND": {1, 2, false, rounded(math.RoundToEven)},
	"TRUNC": {1, 2, false, rounded(math.Trunc)},
	"IDIV": {2, 2, false, func(_ *run, args []any) any {
		if !isNumber(args[0]) || !isNumber(args[1]) || float(args[1]) == 0 {
			return nil
		}
		return number(math.Trunc(float(args[0]) / float(args[1])))
	}},
}

// rounded is a function of a number and how many digits behind the point it keeps.
func rounded(f func(float64) float64) func(*run, []any) any {
	return func(_ *run, args []any) any {
		digits := int64(0)
		if len(args) > 1 {
			var ok bool
			if digits, ok = integer(args[1]); !ok {
				return nil
			}
		}
		if !isNumber(args[0]) || digits > 15 || digits < -15 {
			return nil
		}
		scale := math.Pow(10, float64(digits))
		return number(f(float(args[0])*scale) / scale)
	}
}

var otherFunctions = map[string]function{
	"UUID":        {0, 0, false, func(r *run, _ []any) any { return r.UUID() }},
	"VERSION":     {0, 0, false, func(*run, []any) any { return "mock" }},
	"MIN_VERSION": {0, 0, false, func(*run, []any) any { return "mock" }},
	"ENCODE_JSON": {1, 1, true, func(r *run, args []any) any { return r.encode(args[0]) }},
	"DECODE_JSON": {1, 1, false, func(_ *run, args []any) any {
		s, ok := args[0].(string)
		v, valid := Decode([]byte(s))
		if !ok || !valid {
			return nil
		}
		return v
	}},
	"ENCODED_SIZE": {1, 1, false, func(r *run, args []any) any { return int64(len(r.encode(args[0]))) }},
}

// Functions are the names of all functions and aggregates that there are, in order.
func Functions() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for _, all := range []iter.Seq[string]{maps.Keys(functions), maps.Keys(aggregates)} {
			for name := range all {
				if !yield(name) {
					return
				}
			}
		}
		_ = yield("META")
	})
}
