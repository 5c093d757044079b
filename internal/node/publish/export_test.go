package publish

import "log/slog"

// NewStates returns the states before the first try.
func NewStates(log *slog.Logger) *States { return &States{log: log} }

// NRIErr returns why NRI is not connected.
func (s *States) NRIErr() error { return s.nriErr }
