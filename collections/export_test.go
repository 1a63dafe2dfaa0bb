package collections

// Locked runs f while the cache's lock is held.
func (c *Cache) Locked(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}
