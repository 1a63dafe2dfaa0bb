package sqlpp

// op says what an expression is.
type op uint8

const (
	opConst     op = iota // value
	opParam               // name; args none
	opIdent               // name
	opField               // args[0].name
	opDynField            // args[0].[args[1]]
	opElement             // args[0][args[1]]
	opSlice               // args[0][args[1]:args[2]], the last may be missing
	opStarField           // args[0].*, in a projection only
	opStar                // *, in a projection and in COUNT only
	opArray               // args
	opObject              // args are name, value, name, value ...
	opAnd
	opOr
	opNot
	opNegate
	opArith   // name is + - * / %
	opConcat  // args
	opCompare // name is = != < <= > >=
	opLike    // value LIKE pattern
	opBetween // args[0] BETWEEN args[1] AND args[2]
	opIn      // args[0] IN args[1]
	opWithin
	opIs     // name is NULL, MISSING, VALUED; args[0]
	opExists // args[0]
	opCase   // args[0] is the operand or nil, then when, then ..., and at last else or nil
	opCall   // name(args)
	opQuantified
	opCollect // ARRAY, OBJECT and FIRST ... FOR ... END
	opSubquery
)

// expr is an expression.
type expr struct {
	op       op
	name     string
	value    any
	args     []*expr
	binds    []binding // of opQuantified and opCollect
	when     *expr
	query    *query
	distinct bool
	depth    int
}

// binding is "name [: name] IN | WITHIN expression".
type binding struct {
	index, name string // index is empty without one
	in          *expr
	within      bool
}

// let is a name for a value.
type let struct {
	name string
	expr *expr
}

// query is SELECT with what stands around it.
type query struct {
	with   []let
	parts  []setPart
	order  []orderTerm
	limit  *expr
	offset *expr
}

// setPart is one SELECT of UNION, INTERSECT or EXCEPT; op is empty for the first.
type setPart struct {
	op   string
	all  bool
	core *core
	sub  *query // in brackets, instead of core
}

type orderTerm struct {
	expr  *expr
	desc  bool
	nulls string // FIRST or LAST
}

// core is one SELECT.
type core struct {
	from     []*source
	lets     []let
	where    *expr
	grouped  bool // GROUP BY or aggregates
	group    []let
	letting  []let
	having   *expr
	distinct bool
	raw      bool
	items    []item
	aggs     []*expr // the aggregates of the query, when they are found
}

// item is one part of a projection. name is what a row calls it.
type item struct {
	expr *expr
	name string
	as   string
}

// source is one term of FROM.
type source struct {
	path    *path // a keyspace
	expr    *expr // otherwise an expression or a subquery
	alias   string
	keys    *expr // USE KEYS
	join    string
	outer   bool
	on      *expr
	onKeys  *expr
	pathRef *expr // what path is when its first name is an earlier term
}

// path names a keyspace as it is written.
type path struct {
	namespace string
	parts     []string
}

// statement is a parsed statement: one of its kinds is there.
type statement struct {
	text   string
	verb   string // SELECT, INSERT, CREATE INDEX ...
	query  *query
	dml    *dml
	ddl    *ddl
	txn    *txn
	inner  *statement // of EXPLAIN
	params int        // how many ? there are
}

// writes reports whether the statement changes anything.
func (s *statement) writes() bool { return s.dml != nil || s.ddl != nil }

// dml is INSERT, UPSERT, UPDATE or DELETE.
type dml struct {
	verb      string
	target    *source
	values    [][3]*expr // key, value, options
	selected  *query     // INSERT ... SELECT
	set       []assign
	where     *expr
	limit     *expr
	offset    *expr
	returning *core // with items only
}

// assign is one SET or UNSET.
type assign struct {
	unset bool
	path  *expr
	value *expr
	binds []binding // FOR
	when  *expr
}

// ddl is a statement about indexes, scopes and collections.
type ddl struct {
	verb    string // CREATE or DROP or BUILD or FLUSH
	what    string // INDEX, PRIMARY INDEX, SCOPE, COLLECTION
	name    string
	names   []*expr
	path    *path
	lenient bool // IF EXISTS, IF NOT EXISTS
	keys    []indexKey
	where   *expr
	with    *expr
}

// indexKey is one key of an index.
type indexKey struct {
	expr *expr
	desc bool
}

// txn is a statement about a transaction.
type txn struct{ verb, savepoint string }
