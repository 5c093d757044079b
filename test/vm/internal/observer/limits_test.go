package observer

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLimits checks that the soak compares with the limits of the table in
// docs/explanation/isolation.md, and that no longest duration there exceeds its limit.
func TestLimits(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/explanation/isolation.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]time.Duration)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|") // empty before the first one and after the last one
		if len(cells) != 8 || !strings.HasPrefix(cells[2], " `") {
			continue
		}
		cause := strings.Trim(cells[2], " `")
		limit := duration(t, cells[6])
		documented[cause] = limit
		for _, cell := range cells[4:6] {
			if strings.TrimSpace(cell) != "not seen" && duration(t, cell) > limit {
				t.Errorf("%s: %s exceeds the limit %v", cause, cell, limit)
			}
		}
	}
	if d := cmp.Diff(limits(), documented); d != "" {
		t.Errorf("limits (-observer +document):\n%s", d)
	}
}

// duration parses a cell such as " 14.4 s ".
func duration(t *testing.T, cell string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(strings.ReplaceAll(cell, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
