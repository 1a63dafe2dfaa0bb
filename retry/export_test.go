package retry

// SetEpoch lets a test start near the end of the attempts' numbers.
func SetEpoch(s *State, epoch uint32) { s.ph.Store(epoch << 3) }
