package query

import "github.com/couchcore/couchcore/internal/httpsvc"

// HTTP is the request as it is sent.
func (r *Request) HTTP() (*httpsvc.Request, error) { return r.http(nil) }
