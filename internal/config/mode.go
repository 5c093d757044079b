package config

// Mode is what the daemon does with what it has decided.
type Mode string

// With ModeEnforce it writes it. With ModeObserve it reports and writes nothing: what
// was written before stays as it is.
const (
	ModeEnforce Mode = "enforce"
	ModeObserve Mode = "observe"
)
