package config

import "github.com/cpupoold/cpupoold/pkg/poolspec"

// Keys returns the keys that a file may have and that are not decoded with the mapping
// around them: all top-level keys except mappings and lists, and the options.
func Keys() []string {
	var keys []string
	d := &decoder{}
	for _, f := range d.fields(&Config{}) {
		switch f.name {
		case "partitions", "shared", "guaranteed", "units", "hostSlices", "otherManagers", "node", "depletion", "audit", "interrupts", "power":
		default:
			keys = append(keys, f.name)
		}
	}
	for _, f := range d.options(&poolspec.Spec{}) {
		keys = append(keys, "guaranteed.options."+f.name)
	}
	return keys
}
