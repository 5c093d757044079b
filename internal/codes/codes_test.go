package codes_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/codes"
)

// TestPage checks that each code of the page has sentences for its meaning and its fix, and an
// example, and that each heading has its own anchor.
func TestPage(t *testing.T) {
	data, err := os.ReadFile("../../docs/reference/problem-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	entry := regexp.MustCompile("^\\S+\n\n[^\n]+\\.\n\n```text\n[^\n]+\n```\n(\n[^\n]+\\.\n)?$")
	anchors, entries := map[string]bool{}, 0
	for part := range strings.SplitSeq(string(data), "\n#") {
		title, _, _ := strings.Cut(strings.TrimLeft(part, "# "), "\n")
		anchor := strings.ReplaceAll(strings.ToLower(title), " ", "-")
		if anchors[anchor] {
			t.Errorf("%s: another heading has the same anchor", title)
		}
		anchors[anchor] = true
		if text, is := strings.CutPrefix(part, "## "); is {
			entries++
			if !entry.MatchString(strings.TrimSpace(text) + "\n") {
				t.Errorf("an entry needs sentences for its meaning and its fix, and an example:\n%s", text)
			}
		}
	}
	if entries < 100 {
		t.Errorf("the page has %d codes", entries)
	}
}

func TestLink(t *testing.T) {
	const base = "https://github.com/cpupoold/cpupoold/blob/main/docs/reference/problem-codes.md"
	for code, want := range map[string]string{
		"SharedDepleted": base + "#shareddepleted",
		"pod-level-cpu":  base + "#pod-level-cpu",
		"etcd_below":     base + "#etcd_below",
		"":               "",
		"no code":        "",
		"x\" onclick":    "",
	} {
		if got := codes.Link(code); got != want {
			t.Errorf("Link(%q) = %q; want %q", code, got, want)
		}
	}
}
