package preflight

import "strings"

// assignment is one key of a unit file with its value.
type assignment struct{ key, value string }

// parseUnitFile reads the assignments of a unit file or a drop-in in their order
// (systemd.syntax(7)). What systemd would not understand is skipped, as systemd
// does. The sections do not matter: resource control has the same keys in all.
func parseUnitFile(b []byte) []assignment {
	var all []assignment
	joined := ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue // also in the middle of a line that goes on
		}
		if slashes := len(line) - len(strings.TrimRight(line, `\`)); slashes%2 == 1 {
			joined += line[:len(line)-1] + " "
			continue
		}
		key, value, ok := strings.Cut(joined+line, "=")
		joined = ""
		if key = strings.TrimSpace(key); ok && !strings.HasPrefix(key, "[") {
			all = append(all, assignment{key, strings.TrimSpace(value)})
		}
	}
	return all
}
