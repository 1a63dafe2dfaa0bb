// Package canary finds a password in what a program says. It is for runs that judge the client: the simulation, and the
// chaos over real sockets.
package canary
