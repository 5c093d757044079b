package codes_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/codes"
)

var update = flag.Bool("update", false, "write the page")

const page = "../../docs/reference/problem-codes.md"

// links turns names of pages and runbooks into links.
func links(text string) string {
	text = regexp.MustCompile(`docs/([a-z/-]+)\.md`).ReplaceAllString(text, "[$1](../$1.md)")
	return regexp.MustCompile(`runbook (CPUPool\w+)`).ReplaceAllString(text, "runbook [$1](../troubleshooting/runbooks/$1.md)")
}

// markdown returns the page.
func markdown() string {
	var b strings.Builder
	fmt.Fprint(&b, `# Problem codes

Each code names a reason, a problem or a check. Codes are stable: filter by them in events, metrics and JSON. A code on this page has a meaning,
an example of its text (with … for omitted words), and a fix where an action is necessary.

This page is made from internal/codes. Change the entries there, and run `+"`go test ./internal/codes -update`.\n")
	for _, g := range codes.Groups() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", g.Title, links(g.Where))
		for _, e := range g.Entries {
			fmt.Fprintf(&b, "\n### %s\n\n%s\n\n```text\n%s\n```\n", e.Code, links(e.Meaning), e.Example)
			if e.Fix != "" {
				fmt.Fprintf(&b, "\n%s\n", links(e.Fix))
			}
		}
	}
	return b.String()
}

// TestPage compares the page with the entries. With -update it writes the page.
func TestPage(t *testing.T) {
	want := markdown()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s (-entries +page): run go test ./internal/codes -update\n%s", page, diff)
	}
}

// TestEntries checks that each entry is complete, and that each code and heading has its own
// anchor.
func TestEntries(t *testing.T) {
	anchors := map[string]bool{"problem-codes": true}
	for _, g := range codes.Groups() {
		for _, title := range append([]string{g.Title}, names(g.Entries)...) {
			anchor := strings.ReplaceAll(strings.ToLower(title), " ", "-")
			if anchors[anchor] {
				t.Errorf("%s: another heading has the same anchor", title)
			}
			anchors[anchor] = true
		}
		for _, e := range g.Entries {
			if !strings.HasSuffix(e.Meaning, ".") || e.Example == "" || e.Fix != "" && !strings.HasSuffix(e.Fix, ".") {
				t.Errorf("%s: an entry needs sentences for its meaning and its fix, and an example: %+v", e.Code, e)
			}
		}
	}
}

func names(entries []codes.Entry) []string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Code)
	}
	return all
}

func TestLink(t *testing.T) {
	const base = "https://github.com/cpupoold/cpupoold/blob/main/docs/reference/problem-codes.md"
	for code, want := range map[string]string{
		"SharedDepleted": base + "#shareddepleted",
		"pod-level-cpu":  base + "#pod-level-cpu",
		"etcd_below":     base + "#etcd_below",
		"NoSuchCode":     "",
	} {
		if got := codes.Link(code); got != want {
			t.Errorf("Link(%q) = %q; want %q", code, got, want)
		}
	}
}
