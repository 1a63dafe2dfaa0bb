// Package gocbcore assembles a Go module that stands in for github.com/couchbase/gocbcore/v10, so that programs of gocb
// run on couchcore. Its declarations and its transactions are those of the gocbcore module in the user's own module
// cache; what talks to servers is the code in the directory engine, which is part of that module and not of this one.
//
// Nothing of gocbcore is in this repository. A manifest for each version that is known says which of its files are kept
// as they are, and of which some declarations are kept; what it does not name is left out.
//
// It runs no command and opens no network connection: it is given the source as a file system.
package gocbcore
