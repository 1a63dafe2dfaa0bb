package conn

func (l *linger) has() bool { return l.event.tried }

// holds reports whether it has an open file.
func (l *linger) holds() bool { return l.event.file != nil }
