package demo

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// collected returns the output of the guest's shell for testdata/node.txtar.
func collected(t testing.TB) []byte {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/node.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, file := range archive.Files {
		for line := range bytes.Lines(file.Data) {
			out.WriteString(file.Name + "\x00" + string(line))
		}
	}
	return out.Bytes()
}

func TestParseViews(t *testing.T) {
	views, err := parseViews(collected(t))
	if err != nil {
		t.Fatal(err)
	}
	type short struct {
		Effective string
		Allowed   []string
		Cores     int
		Nodes     string
		Weight    uint64
		Quota     int64
	}
	got := make(map[string]short)
	for id, v := range views {
		got[id[:8]] = short{v.Effective.String(), v.allowed, v.cores, v.nodes.String(), v.Weight, v.Quota}
	}
	want := map[string]short{
		"6cea5da9": {"0-1", []string{"0-1"}, 1, "0", 1, -1}, // pause container of the management pod
		"d39223e3": {"0-1", []string{"0-1"}, 1, "0", 59, -1},
		"34f4c94f": {"2-3", []string{"2-3"}, 1, "0", 1, -1}, // pause container of the mixed pod
		"466952f9": {"7", []string{"7"}, 0, "0", 100, -1},
		"e5fe18a4": {"2-3", []string{"2-3"}, 1, "0", 29, 20_000},
		"du.servi": {"4-5", []string{"4-5"}, 1, "0", 100, -1},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("views (-want +got):\n%s", d)
	}
}

func TestParseViewsOfBadInput(t *testing.T) {
	good := string(collected(t))
	for name, test := range map[string]struct {
		input, want string
	}{
		"nothing":        {"", "kubepods.slice"},
		"no name":        {good + "something\n", `line "something\n" has no file name`},
		"not a list":     {strings.ReplaceAll(good, "cpuset.cpus.effective\x007\n", "cpuset.cpus.effective\x00seven\n"), "cpuset.cpus.effective"},
		"no unit":        {strings.ReplaceAll(good, "system.slice/", "other.slice/"), "system.slice"},
		"not a node":     {strings.ReplaceAll(good, "cpulist\x008-15\n", "cpulist\x008-\n"), "node1/cpulist"},
		"no controllers": {strings.ReplaceAll(good, "cgroup.events\x00populated 1\n", ""), "cgroup.events"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parseViews([]byte(test.input)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("parseViews = %v; want an error with %q", err, test.want)
			}
		})
	}
}

// TestThreads checks that a single thread on other CPUs is detected.
func TestThreads(t *testing.T) {
	input := collected(t)
	line, _, _ := bytes.Cut(input[bytes.LastIndex(input, []byte("proc/")):], []byte("\x00")) // proc/PID/task/TID/status
	input = append(input, bytes.Replace(line, []byte("/task/"), []byte("/task/9"), 1)...)
	input = append(input, "\x00Cpus_allowed_list:\t0-7\n"...)
	views, err := parseViews(input)
	if err != nil {
		t.Fatal(err)
	}
	var found int
	for _, v := range views {
		if len(v.allowed) == 2 && v.allowed[0] == "0-7" {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d containers have a thread that may run on 0-7; want 1", found)
	}
}

func FuzzParseViews(f *testing.F) {
	f.Add(collected(f))
	f.Add([]byte("kubepods.slice/a.scope/cpuset.cpus.effective\x00\n"))
	f.Fuzz(func(t *testing.T, collected []byte) {
		views, err := parseViews(collected)
		if err != nil {
			return
		}
		for id, v := range views {
			if v.Path == "" || strings.Contains(id, "/") {
				t.Errorf("container %q is in cgroup %q", id, v.Path)
			}
		}
	})
}
