// Package services is the HTTP side of the mock's nodes: query, analytics, search and views with the state that they
// need, and the scripts that answer in their place, or in that of management.
//
// NewState makes the state of one cluster. For each request Receive reads it, State.Call begins its answer, and one of
// Serve, Manage, Pong and Refuse gives it. What the services need of the cluster they ask a Host for. An Answer says
// what is answered and how it is delivered; it is what scripts consist of.
//
// What it never holds: listeners, accounts and their passwords, the paths of the management service, documents.
package services
