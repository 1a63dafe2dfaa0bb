// Package sqlpp is the mock's interpreter of SQL++: enough of the language for tests of applications, over the
// documents of a Store.
//
// Parse reads a statement. Run executes it against a Store and returns rows, errors and the number of changed
// documents, with the codes and texts of a query service. Split tells the statements PREPARE and EXECUTE apart from
// what they are about, without reading the rest.
//
// What the interpreter does not know is refused with an error that names it; it never guesses. MISSING and NULL are
// kept apart as the language does. Rows come in the order of the keys unless the statement orders them. No statement
// makes it panic, recurse without a limit, or use more steps, rows or bytes than Limits allow.
//
// What it never holds: documents, indexes, prepared statements, or anything of HTTP.
package sqlpp
