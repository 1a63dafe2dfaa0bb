// Command couchcore shows the client core at work and explains what it does: a demonstration, a stand-alone mock
// cluster, single key-value operations, and the tables of reasons and statuses.
//
// It holds flags and output. Whatever is worth testing elsewhere lives in the packages that it calls.
package main
