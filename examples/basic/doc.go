// Command basic writes a document to a cluster and reads it back. The cluster is a mock inside this process, so that
// the program needs nothing but Go.
package main
