package codes

import (
	"slices"
	"strings"
)

// page is the public address of the page.
const page = "https://github.com/cpupoold/cpupoold/blob/main/docs/reference/problem-codes.md"

// Entry describes a code.
type Entry struct {
	Code    string
	Meaning string
	// Example is a text that is printed with the code. An ellipsis stands for omitted words.
	Example string
	// Fix is the required action. It is empty if no action is necessary.
	Fix string
}

// Group holds the entries of codes that are printed at the same places.
type Group struct {
	Title, Where string
	Entries      []Entry
}

// Groups returns all entries in the order of the page.
func Groups() []Group {
	return []Group{placements(), podProblems(), nodeProblems(), hostSettings(), refusals(), conditions(), evictions(), warnings(), priorities(), checks()}
}

// All returns the entries of all groups.
func All() []Entry {
	var all []Entry
	for _, g := range Groups() {
		all = append(all, g.Entries...)
	}
	return all
}

// Link returns the address of the description of a code. It is empty for a text that is no
// code.
func Link(code string) string {
	if !slices.ContainsFunc(All(), func(e Entry) bool { return e.Code == code }) {
		return ""
	}
	return page + "#" + strings.ToLower(code)
}

// Hint returns the sentence below a table with codes.
func Hint() string { return "codes: " + page }
