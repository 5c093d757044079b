package vectors_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMap compares MAP.md with the tables of the runner.
func TestMap(t *testing.T) {
	data, err := os.ReadFile("MAP.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][][2]string{}
	for name, k := range (machines{}).kinds() {
		want["Kinds that run"] = append(want["Kinds that run"], [2]string{name, k.functions})
	}
	for _, w := range waitingKinds {
		want["Kinds that wait"] = append(want["Kinds that wait"], [2]string{strings.Join(w.kinds, ", "), w.reason})
	}
	for _, d := range deviations {
		want["Deviations"] = append(want["Deviations"], [2]string{d.name, d.reason})
	}
	got := tables(string(data))
	for _, rows := range []map[string][][2]string{want, got} {
		for _, table := range rows {
			slices.SortFunc(table, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("MAP.md and kinds_test.go disagree (-kinds_test.go +MAP.md):\n%s", diff)
	}
}

// TestKindsAreDecidedOnce checks that no kind is in two tables.
func TestKindsAreDecidedOnce(t *testing.T) {
	seen := map[string]bool{}
	for name := range (machines{}).kinds() {
		seen[name] = true
	}
	for _, w := range waitingKinds {
		for _, name := range w.kinds {
			if seen[name] {
				t.Errorf("kind %q is listed twice", name)
			}
			seen[name] = true
		}
	}
}

// tables returns the body rows of the two-column tables of a Markdown text, by
// the heading above them.
func tables(text string) map[string][][2]string {
	rows := map[string][][2]string{}
	heading, body := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			heading, body = title, false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		switch {
		case !strings.HasPrefix(line, "|") || len(cells) != 2:
			body = false
		case strings.HasPrefix(line, "|---"):
			body = true
		case body:
			rows[heading] = append(rows[heading], [2]string{strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1])})
		}
	}
	return rows
}
