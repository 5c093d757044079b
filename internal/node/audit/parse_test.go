package audit

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const statLine = "42 (kworker/u8:1 (x) \n) I 2 0 0 0 -1 69238880 0 0 0 0 3 4 0 0 20 0 1 0 4711 0 0 18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 3 50 1 0 0 0 0 0 0 0 0 0 0 0\n"

func TestParseStat(t *testing.T) {
	got, err := ParseStat([]byte(statLine))
	want := Reading{TID: 42, Comm: "kworker/u8:1 (x) \n", Flags: 69238880, CPU: 3, Start: 4711, Run: 7 * tick, Policy: 1, Priority: 50}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("ParseStat: %v (-want +got):\n%s", err, diff)
	}
	for _, r := range []Reading{got, {Comm: "bash"}, {Comm: "irq/24-nvme", Flags: flagKThread}} {
		if r.IsMovable() {
			t.Errorf("%+v is movable", r)
		}
	}
	if r := (Reading{Comm: "kswapd0", Flags: flagKThread}); !r.IsMovable() {
		t.Errorf("%+v is not movable", r)
	}
	for _, bad := range []string{"", "42", "42 (a", "x (a) R 1", "42 (a) R 1 2 3", strings.Replace(statLine, " 17 3 ", " 17 9999 ", 1), strings.Replace(statLine, "4711", "-1", 1)} {
		if r, err := ParseStat([]byte(bad)); !errors.Is(err, errForm) {
			t.Errorf("ParseStat(%q) = %+v, %v; want an error", bad, r, err)
		}
	}
}

func TestParseSmallFiles(t *testing.T) {
	for _, c := range []struct{ parser, in, want string }{
		{"schedstat", "120000 34 5\n", "120000"},
		{"schedstat", "120000 34\n", ""},
		{"schedstat", "-1 34 5\n", ""},
		{"allowed", "Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\n", "0-3"},
		{"allowed", "Name:\tCpus_allowed_list:\n", ""},
		{"allowed", "Cpus_allowed_list:\t3-0\n", ""},
		{"cgroup", "0::/system.slice/ssh.service\n", "system.slice/ssh.service"},
		{"cgroup", "12:cpuset:/\n0::/\n", "(root)"},
		{"cgroup", "0::/a/b (deleted)\n", "a/b"},
		{"cgroup", "0::/../../system.slice\n", ""},
		{"cgroup", "1:cpuset:/x\n", ""},
		{"uptime", "12.34 99.00\n", "1234"},
		{"uptime", "12 99.00\n", ""},
		{"uptime", "12.3 99.00\n", ""},
	} {
		got, err := parseBy(c.parser, []byte(c.in))
		if err != nil {
			got = ""
		}
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s(%q) = %q, %v; want %q", c.parser, c.in, got, err, c.want)
		}
	}
}

func parseBy(parser string, b []byte) (string, error) {
	number := func(n uint64, err error) (string, error) { return strconv.FormatUint(n, 10), err }
	switch parser {
	case "schedstat":
		return number(ParseSchedstat(b))
	case "uptime":
		return number(ParseUptime(b))
	case "cgroup":
		p, err := ParseCgroup(b)
		if p == "" {
			p = "(root)"
		}
		return p, err
	}
	set, err := ParseAllowed(b)
	return set.String(), err
}

// TestCaptured parses files from real machines.
func TestCaptured(t *testing.T) {
	x86, arm := lines(t, "interrupts-x86"), lines(t, "interrupts-arm64")
	devices := func(all []Line) (names []string) {
		for _, l := range all {
			if l.isDevice() {
				names = append(names, l.Name+" "+l.device())
			}
		}
		return names
	}
	if diff := cmp.Diff([]string{"0 timer", "4 ttyS0", "9 acpi", "24 virtio0-config", "25 virtio0-input.0", "26 nvme0q1"}, devices(x86)); diff != "" {
		t.Errorf("devices, x86 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"14 uart-pl011", "41 ITS-virtio1-req.0"}, devices(arm)); diff != "" {
		t.Errorf("devices, arm64 (-want +got):\n%s", diff)
	}
	for _, l := range x86 {
		if l.Name == "LOC" {
			if diff := cmp.Diff(Line{"LOC", "Local timer interrupts", map[int]uint64{0: 91234, 1: 80000, 3: 12}}, l); diff != "" {
				t.Errorf("LOC (-want +got):\n%s", diff)
			}
		}
		if l.Name == "ERR" || l.Name == "MIS" {
			t.Errorf("%s is there, and is of no CPU", l.Name)
		}
	}
	if n := len(lines(t, "softirqs")); n != 10 {
		t.Errorf("%d softirqs; want 10", n)
	}
	times, err := ParseTimes(testdata(t, "stat"))
	if diff := cmp.Diff(map[int]Times{0: {Tasks: 130 * tick, Interrupts: 30 * tick, Stolen: 3 * tick}, 3: {Tasks: 6 * tick}}, times); err != nil || diff != "" {
		t.Errorf("ParseTimes: %v (-want +got):\n%s", err, diff)
	}
}

func TestSince(t *testing.T) {
	line := func(name, text string, n uint64) Line { return Line{name, text, map[int]uint64{2: n}} }
	got := since([]Line{line("24", "a", 5), line("25", "a", 5), line("26", "a", 5)}, []Line{line("24", "a", 7), line("25", "b", 3), line("26", "a", 1), line("27", "c", 4)})
	if diff := cmp.Diff([]Line{line("24", "a", 2), line("25", "b", 3), line("26", "a", 1), line("27", "c", 4)}, got); diff != "" {
		t.Errorf("since (-want +got):\n%s", diff)
	}
	if n, where := sumOn(line("24", "", 7).Counts, cpuset.Range(0, 3)); n != 7 || !where.Equal(cpuset.Of(2)) {
		t.Errorf("on = %d, %s", n, where)
	}
}

func testdata(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func lines(t testing.TB, name string) []Line {
	t.Helper()
	all, err := ParseCounts(testdata(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(statLine))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseStat(b)
		if err == nil && (r.TID < 1 || r.CPU < 0 || r.CPU >= cpuset.MaxCPUs || !strings.Contains(string(b), "("+r.Comm+")")) {
			t.Errorf("ParseStat(%q) = %+v", b, r)
		}
	})
}

func FuzzParseCounts(f *testing.F) {
	for _, name := range []string{"interrupts-x86", "interrupts-arm64", "softirqs"} {
		f.Add(testdata(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := ParseCounts(b)
		if err != nil {
			return
		}
		for _, l := range since(all, all) {
			if l.Name == "" {
				t.Errorf("ParseCounts(%q): a line without a name", b)
			}
			l.isDevice()
			l.device()
		}
	})
}

func FuzzParseTimes(f *testing.F) {
	f.Add(testdata(f, "stat"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, _ := ParseTimes(b)
		for cpu := range all {
			if cpu < 0 || cpu >= cpuset.MaxCPUs {
				t.Errorf("ParseTimes(%q): CPU %d", b, cpu)
			}
		}
	})
}

func FuzzParseTask(f *testing.F) {
	f.Add([]byte("0::/system.slice/ssh.service\n"), []byte("120000 34 5\n"), []byte("Cpus_allowed_list:\t0-3\n"), []byte("12.34 99.00\n"))
	f.Fuzz(func(t *testing.T, cgroup, schedstat, status, uptime []byte) {
		if p, err := ParseCgroup(cgroup); err == nil && (strings.HasPrefix(p, "../") || strings.Contains(p, "\n")) {
			t.Errorf("ParseCgroup(%q) = %q", cgroup, p)
		}
		_, _ = ParseSchedstat(schedstat)
		_, _ = ParseUptime(uptime)
		if set, err := ParseAllowed(status); err == nil && set.Last() >= cpuset.MaxCPUs {
			t.Errorf("ParseAllowed(%q) = %s", status, set)
		}
	})
}
