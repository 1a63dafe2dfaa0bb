// Package management is the management service of package mock's nodes: the paths, the objects and the settings that
// ns_server has on port 8091. It keeps what only this service knows (groups, settings, server groups) and asks its Host
// for all else: the cluster, its buckets, documents and accounts.
//
// What it answers follows the source of https://github.com/couchbase/ns_server, apps/ns_server/src/menelaus_*.erl.
// The permission of each path is in one table with its handler (routes.go); the texts of errors are the server's,
// because clients recognise errors by them.
package management
