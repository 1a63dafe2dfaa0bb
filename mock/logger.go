package mock

import "log/slog"

// Logger makes the cluster tell a logger, at level Info, what happens to it: nodes that start and stop, revisions of
// the configuration, faults that act, statements that it does not support. The lines have the message "mock", and what
// it is as "event". Documents and passwords are not told. The logger is called on goroutines of connections, which wait
// for it.
func Logger(l *slog.Logger) Option { return func(s *settings) { s.logger = l } }

// tell writes a line to the logger. The caller does not hold the mutex.
func (c *Cluster) tell(event string, args ...any) {
	if l := c.set.logger; l != nil {
		l.Info("mock", append([]any{"event", event}, args...)...)
	}
}
