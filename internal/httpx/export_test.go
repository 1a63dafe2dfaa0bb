package httpx

// MaxPrefixes is the bound of the gate.
const MaxPrefixes = maxPrefixes

// Grace is how much later than the delay others are let go when the refused request is not there.
const Grace = grace

// Prefixes is what the gate remembers.
func (c *Client) Prefixes() int {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	return c.gate.used.Len()
}
