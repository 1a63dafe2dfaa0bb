package mock

// AddUser adds an account, or gives one that exists another password and other buckets, which are as in User.
// Connections that are logged in keep the account, with what it may now.
func (c *Cluster) AddUser(name, password string, buckets ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := newUser(name, password, buckets)
	if old := c.users[name]; old != nil {
		*old = *u
		return
	}
	c.users[name] = u
}

// RemoveUser removes an account, and reports whether there was one. Connections that are logged in stay so.
func (c *Cluster) RemoveUser(name string) bool {
	c.mu.Lock()
	_, known := c.users[name]
	delete(c.users, name)
	c.mu.Unlock()
	c.management.Forget(name)
	return known
}

// Users are the names of the accounts, in order.
func (c *Cluster) Users() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sortedKeys(c.users)
}
