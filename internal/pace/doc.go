// Package pace says how often a server may make the client connect.
package pace
