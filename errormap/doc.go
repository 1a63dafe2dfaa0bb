// Package errormap reads the map in which a server describes its statuses to older clients, versions 1 and 2, and keeps
// the newest one of each node.
//
// It decides nothing about retries and knows no status of its own.
package errormap
