package machines_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/machines"
)

const header = "# Source: https://example.org\n"

// TestGroups checks the short forms of groups.
func TestGroups(t *testing.T) {
	for text, want := range map[string][]string{
		"cache 3 0-3,8-11 4-7":          {"0-3,8-11", "4-7"},
		"cache 3 0-11/4":                {"0-3", "4-7", "8-11"},
		"cache 3 0-3/2+4+8":             {"0-1,4-5,8-9", "2-3,6-7,10-11"},
		"cache 3 0-11:1/2 1-11:1/2":     {"0,2,4,6,8,10", "1,3,5,7,9,11"},
		"cache 3 0-11:1/2/3 1-11:1/2/6": {"0,2,4", "1,3,5,7,9,11", "6,8,10"},
		"cache 2 0-11/2\ncache 3 0-7":   {"0-7", "8-9", "10-11"},
	} {
		m, err := machines.Parse("m", header+"cpus 0-11\n"+text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var got []string
		for _, g := range m.Topology().L3s {
			got = append(got, g.CPUs.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// TestParseErrors checks that a description without a source, with an error, or with a
// contradiction is refused.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"# Nothing\ncpus 0-3":                                            "no comment",
		header + "core 0-3":                                              "no line cpus",
		header + "cpus 0-3\nwant-cache 0-3\nsocket 0 0-3":                "unknown key",
		header + "cpus 0-3\nwant-cache 0-3\ncpus 3-0":                    "parse kernel CPU list",
		header + "cpus 0-3\nwant-cache 0-3\ncore 0-3/3":                  "4 CPUs are no multiple of 3",
		header + "cpus 0-3\nwant-cache 0-3\ncore 0-3/0":                  "not the size of a group",
		header + "cpus 0-3\nwant-cache 0-3\ncore 0-1/1+x":                "not an offset",
		header + "cpus 0-3\nwant-cache 0-3\nnode 0":                      "want numbers and groups",
		header + "cpus 0-3\nwant-cache 0-3\nnode 1-0 0-3":                "not a list of numbers",
		header + "cpus 0-3\nwant-cache 0-3\nnode 0-2 0-3/2":              "3 numbers for 2 groups",
		header + "cpus 0-3\nwant-cache 0-3\nnode 0-1 0-3/2\ndistance 10": "1 rows for 2 nodes",
		header + "cpus 0-3\nwant-cache 0-3\nnode 0 0-2":                  "CPUs 3 are in no group",
		header + "cpus 0-3\nwant-cache 0-3\nnode 0 0-4":                  "CPUs 4 are neither",
		header + "cpus 0-3\nwant-cache 0-3\noffline 3-4":                 "CPUs 3 are online and offline",
		header + "cpus 0-3\nwant-cache 0-3\nnode 0-1 0-3 0-1":            "no line want-node",
		header + "cpus 0-3\ncache 2 0-1":                                 "CPUs 2-3 have no cache",
	} {
		if _, err := machines.Parse("m", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}
