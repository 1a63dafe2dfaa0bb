package conn

func (l *linger) has() bool { return l.parked != 0 }
