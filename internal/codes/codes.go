// Package codes links the codes of cpupoold to their descriptions: codes of placements, problems,
// refusals, checks, conditions, events and warnings. A code is stable: users filter by it, and its
// anchor on the page docs/reference/problem-codes.md stays.
//
// A test of test/arch compares the page with the codes of the source.
package codes

import (
	"regexp"
	"strings"
)

// page is the public address of the page.
const page = "https://github.com/cpupoold/cpupoold/blob/main/docs/reference/problem-codes.md"

// Link returns the address of the description of a code. It is empty for a text that does not have
// the form of a code.
func Link(code string) string {
	if !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`).MatchString(code) {
		return ""
	}
	return page + "#" + strings.ToLower(code)
}

// Hint returns the sentence below a table with codes.
func Hint() string { return "codes: " + page }
