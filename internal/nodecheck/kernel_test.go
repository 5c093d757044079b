package nodecheck_test

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/nodecheck"
)

func TestParseKernel(t *testing.T) {
	for in, want := range map[string][2]int{
		"6.12.107+deb13-cloud-amd64": {6, 12},
		"7.0-rc3":                    {7, 0},
		"5.14.0-427.el9.x86_64":      {5, 14},
		"6":                          {},
		"6.":                         {},
		"-6.1":                       {},
		"99999999.1":                 {},
		"":                           {},
	} {
		k, err := nodecheck.ParseKernel(in)
		major, minor := k.Version()
		if got := [2]int{major, minor}; got != want || (err == nil) != (want != [2]int{}) {
			t.Errorf("ParseKernel(%q) = %v, %v; want %v", in, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "MAJOR.MINOR") {
			t.Errorf("ParseKernel(%q): %v", in, err)
		}
	}
}

func FuzzParseKernel(f *testing.F) {
	f.Add("6.12.107+deb13-cloud-amd64")
	f.Add("7.0-rc3")
	f.Fuzz(func(t *testing.T, s string) {
		k, err := nodecheck.ParseKernel(s)
		if major, minor := k.Version(); err == nil && (major < 0 || minor < 0 || major > 65535 || minor > 65535) {
			t.Errorf("ParseKernel(%q) = %d, %d", s, major, minor)
		}
	})
}

// TestBefore checks the kernels at which the findings begin and end.
func TestBefore(t *testing.T) {
	for release, want := range map[string][2]int{"6.1.0": {1, 0}, "6.2.0": {0, 0}, "6.12.0": {0, 0}, "7.0.1": {0, 1}} {
		k, err := nodecheck.ParseKernel(release)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]int{len(k.Affinity()), len(k.Reload("systemd"))}; got != want {
			t.Errorf("%s: %v findings about affinities and reloads; want %v", release, got, want)
		}
	}
}
