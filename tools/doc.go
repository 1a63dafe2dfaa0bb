// Package tools pins the programs that checks are run with; its go.mod keeps their two hundred modules out of the
// module that users import. It holds no code.
package tools
