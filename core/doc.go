// Package core is what an application opens: a cluster, its buckets, and the wiring between configuration, connections,
// cluster maps, retries and reports.
//
// It never encodes or decodes a packet, switches on a status, or reads a row.
package core
