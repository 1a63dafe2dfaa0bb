package sqlpp

import "strings"

func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// text is an expression as plans and the keys of indexes have it. Members of sole, the only term of FROM, are written
// without it.
func text(e *expr, sole string) string {
	var b strings.Builder
	write(&b, e, sole)
	return b.String()
}

func write(b *strings.Builder, e *expr, sole string) {
	if e == nil {
		return
	}
	list := func(open string, sign string, shut string) {
		b.WriteString(open)
		for i, a := range e.args {
			if i > 0 {
				b.WriteString(sign)
			}
			write(b, a, sole)
		}
		b.WriteString(shut)
	}
	switch e.op {
	case opConst:
		r := &run{limits: DefaultLimits}
		if isMissing(e.value) {
			b.WriteString("missing")
			return
		}
		b.WriteString(r.encode(e.value))
	case opParam:
		b.WriteString("$" + e.name)
	case opIdent:
		b.WriteString(quoteName(e.name))
	case opField:
		if a := e.args[0]; a.op == opIdent && a.name == sole {
			b.WriteString(quoteName(e.name))
			return
		}
		list("(", "", "."+quoteName(e.name)+")")
	case opStar:
		b.WriteString("*")
	case opStarField:
		list("", "", ".*")
	case opCall:
		open := strings.ToLower(e.name) + "("
		if e.distinct {
			open += "distinct "
		}
		if e.name == "META" && len(e.args) == 1 && e.args[0].name == sole {
			b.WriteString("meta()")
			return
		}
		list(open, ", ", ")")
	default:
		writeMore(b, e, sole, list)
	}
}

// signsOf are the operators between the arguments of an expression.
var signsOf = map[op]string{
	opAnd: " and ", opOr: " or ", opConcat: " || ", opLike: " like ", opIn: " in ", opWithin: " within ",
	opElement: " at ", opDynField: " . ", opSlice: " : ", opObject: ", ", opBetween: " between ", opCase: " case ",
	opExists: " exists ",
}

// writeMore writes operators, and what plans hardly show.
func writeMore(b *strings.Builder, e *expr, sole string, list func(open, sign, shut string)) {
	switch e.op {
	case opArray:
		list("[", ", ", "]")
	case opNot:
		list("(not ", "", ")")
	case opNegate:
		list("(-", "", ")")
	case opIs:
		list("(", "", " is "+strings.ToLower(e.name)+")")
	case opCompare, opArith:
		list("(", " "+e.name+" ", ")")
	case opQuantified, opCollect:
		b.WriteString("(" + strings.ToLower(e.name))
		for _, bind := range e.binds {
			b.WriteString(" " + bind.index + " " + bind.name + " in ")
			write(b, bind.in, sole)
		}
		list(" for ", ", ", " when ")
		write(b, e.when, sole)
		b.WriteString(")")
	case opSubquery:
		b.WriteString("(select)")
	default:
		open := "("
		if e.op == opExists || e.op == opCase {
			open = "(" + signsOf[e.op]
		}
		list(open, signsOf[e.op], ")")
	}
}
