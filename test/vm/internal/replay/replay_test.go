package replay_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/test/vm/internal/replay"
)

func parse(t *testing.T, name string) *replay.Run {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	run, err := replay.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestParse(t *testing.T) {
	tests := map[string]*replay.Run{
		"failure.json": {Outcome: replay.Fail, Tests: []*replay.Test{
			{Name: "TestPass", Outcome: replay.Pass, Output: "    a_test.go:5: fine\n"},
			{Name: "TestSkip", Outcome: replay.Skip, Output: "    a_test.go:7: needs a newer kernel\n"},
			{Name: "TestSub", Outcome: replay.Fail, Sub: []*replay.Test{
				{Name: "good", Outcome: replay.Pass},
				{Name: "bad/slash", Outcome: replay.Fail, Output: "    a_test.go:12: effective = \"0-7\"; want \"2-3\"\n"},
			}},
			{Name: "TestParallel", Outcome: replay.Pass, Sub: []*replay.Test{
				{Name: "a", Outcome: replay.Pass, Output: "    a_test.go:18: in a\n"},
				{Name: "b", Outcome: replay.Pass, Output: "    a_test.go:18: in b\n"},
			}},
		}},
		"cut.json": {Outcome: replay.Unfinished, Tests: []*replay.Test{
			{Name: "TestPass", Outcome: replay.Pass, Output: "    a_test.go:5: fine\n"},
			{Name: "TestSkip", Outcome: replay.Skip, Output: "    a_test.go:7: needs a newer kernel\n"},
			{Name: "TestSub", Outcome: replay.Unfinished, Sub: []*replay.Test{
				{Name: "good", Outcome: replay.Unfinished, Output: "\x16--- PASS: TestSub/good (0."},
			}},
		}},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, parse(t, name), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Parse(%s) (-want +got):\n%s", name, diff)
			}
		})
	}
}

func TestParsePanic(t *testing.T) {
	run := parse(t, "panic.json")
	got := run.Tests[len(run.Tests)-1]
	if got.Name != "TestPanic" || got.Outcome != replay.Unfinished || !strings.Contains(got.Output, "panic: boom") {
		t.Errorf("last test = %+v; want TestPanic, unfinished, with the panic in its output", got)
	}
}

func TestParseRejects(t *testing.T) {
	if run, err := replay.Parse(strings.NewReader("{\"Action\":\"start\"}\nPASS\n")); err == nil {
		t.Errorf("Parse(plain output) = %+v; want an error", run)
	}
}

// TestReport runs TestReplayed, which replays one recording, in a separate process, because it should fail
// there.
func TestReport(t *testing.T) {
	tests := map[string]struct {
		exit int
		want []string
	}{
		"failure.json": {1, []string{
			"--- PASS: TestReplayed/TestPass", "--- SKIP: TestReplayed/TestSkip", "--- FAIL: TestReplayed/TestSub (", "--- PASS: TestReplayed/TestSub/good",
			"--- FAIL: TestReplayed/TestSub/bad/slash", `effective = "0-7"; want "2-3"`, "--- PASS: TestReplayed/TestParallel/b",
		}},
		"panic.json":  {1, []string{"--- FAIL: TestReplayed/TestPanic", "panic: boom", "did not finish"}},
		"cut.json":    {1, []string{"--- FAIL: TestReplayed/TestSub/good", "did not finish"}},
		"pass.json":   {0, []string{"--- PASS: TestReplayed/TestPass"}},
		"empty.json":  {1, []string{"the test binary ran no tests"}},
		"main.json":   {1, []string{"the test binary failed outside of any test", "no cgroup2 at /sys/fs/cgroup"}},
		"nothing.txt": {1, []string{"neither PASS nor FAIL"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReplayed$", "-test.v")
			child.Env = append(os.Environ(), "REPLAY="+name)
			out, err := child.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if got := child.ProcessState.ExitCode(); got != tt.exit {
				t.Errorf("exit code = %d; want %d", got, tt.exit)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("output lacks %q", want)
				}
			}
			if t.Failed() {
				t.Logf("output:\n%s", out)
			}
		})
	}
}

func TestReplayed(t *testing.T) {
	name := os.Getenv("REPLAY")
	if name == "" {
		t.Skip("only runs as a child of TestReport")
	}
	run := parse(t, name)
	if ok := replay.Report(t, run); ok == t.Failed() {
		t.Errorf("Report = %v, and failed = %v", ok, t.Failed())
	}
}

func FuzzParse(f *testing.F) {
	recordings, err := filepath.Glob("testdata/*.json")
	if err != nil || len(recordings) == 0 {
		f.Fatalf("recordings = %v, %v", recordings, err)
	}
	for _, name := range recordings {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, data string) {
		run, err := replay.Parse(strings.NewReader(data))
		if (run == nil) == (err == nil) {
			t.Errorf("Parse = %v, %v; want one of them", run, err)
		}
	})
}
