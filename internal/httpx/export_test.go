package httpx

// MaxPrefixes is the bound of the gate.
const MaxPrefixes = maxPrefixes

// Prefixes is what the gate remembers.
func (c *Client) Prefixes() int {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	return c.gate.used.Len()
}
