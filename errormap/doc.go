// Package errormap reads the map in which a server describes its statuses to older clients, versions 1 and 2, and keeps
// the newest one of each node.
//
// Parse reads a map and refuses one that breaks a limit. Map.Lookup says what the server means by a status, and the
// methods of an Entry say whether the server lets it be retried. A Store takes the map of each node by Offer and gives
// it by For:
//
//	m, err := errormap.Parse(data, 1<<20)
//	entry, known := m.Lookup(0x86)
//
// It decides nothing about retries and knows no status of its own.
package errormap
