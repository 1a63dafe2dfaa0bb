// Package gocaves speaks the control protocol of gocaves, the mock that gocbcore's and gocb's suites start when they
// are not given a server: a client makes clusters, adds buckets, moves the time, and begins and ends tests, each of
// which is a cluster with the faults that its name stands for.
//
// A suite takes the couchcore command for gocaves when it finds it under that program's name, see docs/testing.md.
//
// New makes a Server, Server.Serve obeys a client over one connection, and Close ends the clusters that clients have
// made. Hello begins the conversation where the client has listened and the server has connected. "couchcore mock
// --gocaves" is a program around it.
//
// What it does not know: gocaves' dev server (--link-addr) and its reports elsewhere (--reporting-addr). A report names
// the tests and how they ended, without packets.
package gocaves
