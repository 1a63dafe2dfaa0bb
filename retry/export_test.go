package retry

// SetEpoch lets a test start near the end of the attempts' numbers.
func SetEpoch(s *State, epoch uint32) { s.ph.Store(epoch << 3) }

// Armed reports whether o's timer is set.
func Armed(o *Orchestrator) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.armed != never
}
