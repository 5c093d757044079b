package hostkubelet

import "maps"

// ParseFlags returns the flags of a command line, by name.
func ParseFlags(cmdline []byte) map[string]string { return maps.Collect(eachFlag(cmdline)) }
