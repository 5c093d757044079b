//go:build vm

package vm_test

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestCheck breaks a node in each way that cpupoold check claims to find.
func TestCheck(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true})
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/check", "-cpupoold=/usr/local/bin/cpupoold", "-checks="+strings.Join(checkNames(t), ","))
}

// checkNames returns the names of the findings in the unit tests' cases, which cover all
// checks.
func checkNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../internal/node/preflight/testdata/cases/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("cases of internal/node/preflight: %v, %v", files, err)
	}
	finding := regexp.MustCompile(`(?m)^[a-z]+ ([a-z0-9-]+): `)
	names := make(map[string]bool)
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			if f.Name != "want" {
				continue
			}
			for _, match := range finding.FindAllSubmatch(f.Data, -1) {
				names[string(match[1])] = true
			}
		}
	}
	if len(names) == 0 {
		t.Fatalf("no findings in %d cases", len(files))
	}
	return slices.Sorted(maps.Keys(names))
}
