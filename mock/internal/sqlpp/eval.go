package sqlpp

import (
	"math"
	"strconv"
	"strings"
)

// eval is the value of an expression. After an error it is MISSING.
func (r *run) eval(e *expr, s *scope) any {
	if e == nil || !r.spend(1) {
		return missing
	}
	switch e.op {
	case opConst:
		return e.value
	case opParam:
		return r.parameter(e)
	case opIdent:
		return r.identifier(e, s)
	case opField:
		return field(r.eval(e.args[0], s), e.name)
	case opDynField:
		name, ok := r.eval(e.args[1], s).(string)
		if !ok {
			return missing
		}
		return field(r.eval(e.args[0], s), name)
	case opElement:
		return element(r.eval(e.args[0], s), r.eval(e.args[1], s))
	case opSlice:
		return r.slice(e, s)
	case opArray:
		return r.array(e, s)
	case opObject:
		return r.object(e, s)
	case opCase:
		return r.caseOf(e, s)
	case opQuantified:
		return r.quantified(e, s)
	case opCollect:
		return r.collect(e, s)
	case opSubquery:
		return r.subquery(e, s)
	case opCall:
		return r.call(e, s)
	case opStar, opStarField:
		r.fail(fail(CodeSemantics, "* can only be selected or counted"))
		return missing
	default:
		return r.operator(e, s)
	}
}

// operator evaluates what works on the values of its arguments.
func (r *run) operator(e *expr, s *scope) any {
	if e.op == opAnd || e.op == opOr {
		return r.logic(e, s)
	}
	args := make([]any, len(e.args))
	for i, a := range e.args {
		args[i] = r.eval(a, s)
	}
	switch e.op {
	case opIs:
		return is(e.name, args[0])
	case opExists:
		return exists(args[0])
	default:
	}
	for _, a := range args {
		if isMissing(a) {
			return missing
		}
	}
	switch e.op {
	case opNot:
		if args[0] == nil {
			return nil
		}
		return !truth(args[0])
	case opIn:
		return r.in(args[0], args[1])
	case opWithin:
		return r.in(args[0], r.descendants(args[1]))
	default:
	}
	for _, a := range args {
		if a == nil {
			return nil
		}
	}
	switch e.op {
	case opCompare:
		return holds(e.name, r.compare(args[0], args[1]))
	case opBetween:
		return r.compare(args[0], args[1]) >= 0 && r.compare(args[0], args[2]) <= 0
	case opNegate:
		return arithmetic("-", int64(0), args[0])
	case opArith:
		return arithmetic(e.name, args[0], args[1])
	case opConcat:
		return r.concat(args)
	case opLike:
		return r.like(args[0], args[1])
	default:
		return missing
	}
}

func holds(sign string, order int) bool {
	switch sign {
	case "=":
		return order == 0
	case "!=":
		return order != 0
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	default:
		return order >= 0
	}
}

// logic is AND and OR. FALSE decides AND, TRUE decides OR; of the rest MISSING wins in AND and NULL in OR.
func (r *run) logic(e *expr, s *scope) any {
	decides := e.op == opOr
	var null, none bool
	for _, a := range e.args {
		switch v := r.eval(a, s); {
		case v == nil:
			null = true
		case isMissing(v):
			none = true
		case truth(v) == decides:
			return decides
		}
		if r.err != nil {
			return missing
		}
	}
	switch {
	case none && (!decides || !null):
		return missing
	case null:
		return nil
	}
	return !decides
}

func is(what string, v any) any {
	switch what {
	case "MISSING":
		return isMissing(v)
	case "VALUED":
		return !unknown(v)
	}
	if isMissing(v) {
		return missing
	}
	return v == nil
}

func exists(v any) any {
	if isMissing(v) {
		return missing
	}
	a, ok := v.([]any)
	return ok && len(a) > 0
}

// in reports whether an array has a value; NULL when it is not found among some that are NULL.
func (r *run) in(v, list any) any {
	a, ok := list.([]any)
	if !ok || v == nil {
		return nil
	}
	null := false
	for _, x := range a {
		if unknown(x) {
			null = true
			continue
		}
		if r.equal(v, x) {
			return true
		}
	}
	if null {
		return nil
	}
	return false
}

// descendants are all values in arrays and objects of a value.
func (r *run) descendants(v any) any {
	out := []any{}
	var walk func(v any)
	add := func(x any) {
		if r.spend(1) && r.fits(len(out)) {
			out = append(out, x)
			walk(x)
		}
	}
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				add(x)
			}
		case map[string]any:
			for _, name := range r.names(v) {
				add(v[name])
			}
		}
	}
	walk(v)
	return out
}

// arithmetic computes with two numbers; NULL for other values, and for a division by zero.
func arithmetic(sign string, a, b any) any {
	if !isNumber(a) || !isNumber(b) {
		return nil
	}
	i, whole := a.(int64)
	j, whole2 := b.(int64)
	if whole && whole2 {
		switch sign {
		case "+":
			if sum := i + j; (sum > i) == (j > 0) {
				return sum
			}
		case "-":
			if diff := i - j; (diff < i) == (j > 0) {
				return diff
			}
		case "*":
			if math.Abs(float64(i)*float64(j)) < 1<<62 {
				return i * j
			}
		case "%":
			if j == 0 {
				return nil
			}
			if j == -1 {
				return int64(0)
			}
			return i % j
		}
	}
	x, y := float(a), float(b)
	switch sign {
	case "+":
		return number(x + y)
	case "-":
		return number(x - y)
	case "*":
		return number(x * y)
	case "/":
		if y == 0 {
			return nil
		}
		return number(x / y)
	}
	if y == 0 {
		return nil
	}
	return number(math.Mod(x, y))
}

func (r *run) concat(args []any) any {
	var b strings.Builder
	for _, a := range args {
		text, ok := a.(string)
		if !ok {
			return nil
		}
		if !r.allocate(len(text)) {
			return missing
		}
		b.WriteString(text)
	}
	return b.String()
}

// like matches a text with a pattern: % stands for any text, _ for one character, and a backslash takes their meaning
// away.
func (r *run) like(v, pattern any) any {
	s, ok := v.(string)
	p, ok2 := pattern.(string)
	if !ok || !ok2 {
		return nil
	}
	text, want := []rune(s), []rune(p)
	r.spend((len(text) + len(want)) / 16)
	i, j, star, mark := 0, 0, -1, 0
	for i < len(text) {
		if !r.spend(1) {
			return missing
		}
		literal := j+1 < len(want) && want[j] == '\\'
		switch {
		case literal && want[j+1] == text[i]:
			i, j = i+1, j+2
		case !literal && j < len(want) && want[j] == '%':
			star, mark = j, i
			j++
		case !literal && j < len(want) && (want[j] == '_' || want[j] == text[i]):
			i, j = i+1, j+1
		case star >= 0:
			mark++
			i, j = mark, star+1
		default:
			return false
		}
	}
	for j < len(want) && want[j] == '%' {
		j++
	}
	return j == len(want)
}

// parameter is a value that the request brings.
func (r *run) parameter(e *expr) any {
	if i, err := strconv.Atoi(e.name); err == nil {
		if i < 1 || i > len(r.Args) {
			r.fail(fail(CodeEvaluation, "Error evaluating expression: No value for positional parameter $%d.", i))
			return missing
		}
		return r.Args[i-1]
	}
	v, ok := r.Named[e.name]
	if !ok {
		r.fail(fail(CodeEvaluation, "Error evaluating expression: No value for named parameter $%s.", e.name))
		return missing
	}
	return v
}

// identifier is the value of a name: what has it, or the member of the only term of FROM.
func (r *run) identifier(e *expr, s *scope) any {
	if found := s.find(e.name); found != nil {
		return found.value
	}
	f := s.frame()
	if f == nil || f.sole == "" {
		r.fail(fail(CodeAmbiguous, "Ambiguous reference to field '%s'.", e.name))
		return missing
	}
	if found := s.find(f.sole); found != nil {
		return field(found.value, e.name)
	}
	return missing
}

func (r *run) slice(e *expr, s *scope) any {
	v := r.eval(e.args[0], s)
	from := r.eval(e.args[1], s)
	a, ok := v.([]any)
	if isMissing(v) || isMissing(from) {
		return missing
	}
	i, whole := integer(from)
	end, whole2 := int64(len(a)), true
	if len(e.args) > 2 {
		to := r.eval(e.args[2], s)
		if isMissing(to) {
			return missing
		}
		end, whole2 = integer(to)
	}
	if !ok || !whole || !whole2 {
		return nil
	}
	n := int64(len(a))
	if i < 0 {
		i += n
	}
	if end < 0 {
		end += n
	}
	if i < 0 || end > n || i > end {
		return missing
	}
	return a[i:end]
}

func (r *run) array(e *expr, s *scope) any {
	out := make([]any, len(e.args))
	for i, a := range e.args {
		if out[i] = r.eval(a, s); isMissing(out[i]) {
			out[i] = nil
		}
	}
	r.allocate(16 * len(out))
	return out
}

func (r *run) object(e *expr, s *scope) any {
	out := map[string]any{}
	r.allocate(32 * len(e.args))
	for i := 0; i+1 < len(e.args); i += 2 {
		name, ok := r.eval(e.args[i], s).(string)
		if !ok {
			return nil
		}
		if v := r.eval(e.args[i+1], s); !isMissing(v) {
			out[name] = v
		}
	}
	return out
}

func (r *run) caseOf(e *expr, s *scope) any {
	operand := r.eval(e.args[0], s)
	n := len(e.args)
	for i := 1; i+1 < n; i += 2 {
		when := r.eval(e.args[i], s)
		if e.args[0] == nil && truth(when) ||
			e.args[0] != nil && !unknown(operand) && !unknown(when) && r.equal(operand, when) {
			return r.eval(e.args[i+1], s)
		}
	}
	if e.args[n-1] == nil {
		return nil
	}
	return r.eval(e.args[n-1], s)
}
