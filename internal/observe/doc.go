// Package observe is how couchcore tells about itself: spans and metrics over the OpenTelemetry API, log messages and
// keys, secrets that do not print, and the report of orphaned responses.
//
// It decides nothing about an operation, links no exporter and no OpenTelemetry SDK, never asks for a global provider
// or logger, and costs a nil check without telemetry.
package observe
