// Package httpx sends requests to a cluster's HTTP services: it chooses a node of the newest cluster map, adds the
// credentials, and hands every failure that may pass to the retry orchestrator, as dispatch does for key-value calls.
//
// It knows no code of a service and reads no rows.
package httpx
