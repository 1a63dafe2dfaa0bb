// Package cberr is the one table of errors that all services share, with the names of the Couchbase error RFC. They are
// values to compare with: errors.Is finds them in whatever wraps them.
//
//	if errors.Is(err, cberr.DocumentNotFound) { ... }
//
// KindOf gives the one that an error matches. Timeout matches both kinds of timeouts.
//
// It holds no behaviour and no service's context.
package cberr
