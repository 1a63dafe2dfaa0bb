// Package couchcore is the module's top: it holds no code, only the tests of the rules that hold for the whole
// module. Start with package core; README.md has two programs that work.
package couchcore
