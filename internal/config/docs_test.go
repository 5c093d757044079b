package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestDocumentationNamesEveryKey(t *testing.T) {
	page := read(t, "../../docs/configuration.md")
	for _, key := range config.Keys() {
		if !strings.Contains(page, "| `"+key+"` |") && !strings.Contains(page, "| `"+key+".cpus` |") {
			t.Errorf("docs/configuration.md has no row for %s", key)
		}
	}
}

func TestExampleOfReadmeIsValid(t *testing.T) {
	_, rest, ok := strings.Cut(read(t, "../../README.md"), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("README.md has no yaml example")
	}
	if _, err := config.Parse([]byte(example), "README.md", config.Overrides{}, machine()); err != nil {
		t.Error(err)
	}
}
