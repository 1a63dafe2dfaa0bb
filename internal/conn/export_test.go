package conn

// ReadBuffer is how long the read buffer is.
func (c *Conn) ReadBuffer() int { return int(c.reads.Load()) }
