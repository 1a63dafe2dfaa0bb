// Package telemetry counts a client's attempts by node, service and bucket, and gives the counts to the cluster when it
// asks for them: application telemetry, SDK RFC 84.
//
// What it never holds: the choice of endpoints, credentials, decisions about calls.
package telemetry
