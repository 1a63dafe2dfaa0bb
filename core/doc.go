// Package core is what an application opens: a cluster, its buckets, and the wiring between configuration, connections,
// cluster maps, retries and reports.
//
// It never encodes or decodes a packet, switches on a status, or reads a row.
package core

// Version is that of this module, by semantic versioning. Before 1.0.0 a minor version may change the API.
const Version = "0.1.0"
