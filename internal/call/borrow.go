package call

// Borrow runs f with the request's key, which stays the caller's: f must neither block nor keep it. It does nothing,
// and says so, once the call has ended, because the key is then given back.
func (c *Call) Borrow(f func(key []byte)) bool {
	if !c.guard.CompareAndSwap(0, 1) {
		return false
	}
	f(c.Req.Key)
	c.guard.Store(0)
	return true
}
