package sim

// Lines are the lines of a run's trace.
func (r *Report) Lines() []string {
	ls := make([]string, 0, len(r.trace))
	for _, e := range r.trace {
		ls = append(ls, e.String())
	}
	return ls
}

// GoroutinesInBubble counts the goroutines of the caller's bubble beside the caller.
func GoroutinesInBubble() int { return goroutinesInBubble() }
