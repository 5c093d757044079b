//go:build vm

package vm_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/matrix"
)

// TestGuarantees checks each guarantee of README.md once, on one node: `make test-node`.
func TestGuarantees(t *testing.T) {
	leave(t)
	m := vm.Start(t, matrix.Pairs()[0].Config)
	installDaemon(t, m)
	tests := guaranteeTests()
	args := map[string][]string{"firstcpus": {"-starts=4", "-starts-at-once=4"}}
	for _, pkg := range slices.Sorted(maps.Keys(tests)) {
		t.Run(pkg, func(t *testing.T) {
			vm.RunTests(t, m, "./guest/"+pkg, append(args[pkg], "-test.run=^("+strings.Join(tests[pkg], "|")+")$")...)
		})
	}
}

// guaranteeTests returns the tests of all guarantees, by package.
func guaranteeTests() map[string][]string {
	tests := make(map[string][]string)
	for _, g := range matrix.Guarantees() {
		for _, test := range g.Tests {
			pkg, name, _ := strings.Cut(test, "/")
			tests[pkg] = append(tests[pkg], name)
		}
	}
	return tests
}
