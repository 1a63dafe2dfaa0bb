package conn

func (l *linger) has() bool { return l.tried }

// holds reports whether it has an open file.
func (l *linger) holds() bool { return l.event != nil }
