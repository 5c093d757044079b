package config

import "github.com/spf13/pflag"

// Overrides are the settings that were given as flags. They win over the file,
// also when the file is read again. The zero value overrides nothing.
type Overrides struct {
	settings []setting
}

type setting struct{ flag, key, value string }

// AddFlags defines the flags of the few settings that it helps to change
// without editing a file. Load reports a bad value together with what is wrong
// in the file.
func (o *Overrides) AddFlags(flags *pflag.FlagSet) {
	for _, f := range []struct{ flag, key, usage string }{
		{"container-runtime-endpoint", "containerRuntimeEndpoint", "CRI `socket` (default: look for it)"},
		{"listen-address", "listenAddress", "`host:port` of /metrics, /healthz and /readyz"},
		{"log-level", "logLevel", "`level` of the log: debug, info, warn or error"},
		{"log-format", "logFormat", "`format` of the log: text or json"},
	} {
		flags.Func(f.flag, f.usage, func(value string) error {
			o.settings = append(o.settings, setting{f.flag, f.key, value})
			return nil
		})
	}
}
