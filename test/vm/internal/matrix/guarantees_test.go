package matrix_test

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/test/vm/internal/matrix"
)

// TestGuarantees checks that each guarantee of README.md has tests, and no other.
func TestGuarantees(t *testing.T) {
	section := find(t, "README.md", `(?s)\n## What cpupoold guarantees\n(.*?)\n## `)
	var want, got []string
	for _, m := range regexp.MustCompile(`(?m)^\d+\. (.*)$`).FindAllStringSubmatch(section, -1) {
		want = append(want, m[1])
	}
	for _, g := range matrix.Guarantees() {
		got = append(got, g.Text)
		if len(g.Tests) == 0 {
			t.Errorf("no test checks: %s", g.Text)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("guarantees (-README.md +matrix.Guarantees):\n%s", diff)
	}
}
