package verdict

import (
	"strconv"
	"strings"
)

// join lists texts with commas, and "and" before the last.
func join(texts []string) string {
	last := len(texts) - 1
	if last < 1 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

// clip makes a name of a manifest fit for a line: names that the API server accepts stay.
func clip(name string) string {
	const limit = 253
	if len(name) > limit {
		return strconv.Quote(name[:limit]) + "..."
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
		return strconv.Quote(name)
	}
	return name
}
