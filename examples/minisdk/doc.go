// Package minisdk is a small SDK on couchcore: documents as Go values by transcoders, options for each call, errors and
// spans of its own, and a Close that lets calls finish. docs/building-an-sdk.md explains it, part by part.
//
// It has no retry loop, no connection and no cluster map: those are couchcore's.
package minisdk
