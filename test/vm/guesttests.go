package vm

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/cpupoold/cpupoold/test/vm/internal/replay"
)

const (
	outputs          = "tests" // prefix of the names of files with the output of tests, in the run directory
	defaultTestLimit = 30 * time.Minute
	// testGrace is the time between the end of the guest's tests and the host's deadline. In this time the host ends a guest that still
	// runs, and fetches its logs. At its deadline the host would lose them.
	testGrace = giveUp + logLimit + 30*time.Second
	giveUp    = 30 * time.Second
)

// Start boots a guest for a test and closes it at the test's end. If the test has failed by then, the guest's journal and console log
// are kept, and the test's log names their directory.
func Start(t *testing.T, config Config) *VM {
	t.Helper()
	begin := time.Now()
	m, err := Boot(t.Context(), config)
	if err != nil {
		t.Fatalf("start guest: %v", err)
	}
	t.Logf("guest ready after %v", time.Since(begin).Round(time.Millisecond))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs of the guest: %s", m.keepLogs())
		}
		if err := m.Close(); err != nil {
			t.Errorf("close guest: %v", err)
		}
	})
	return m
}

// RunTests compiles the tests of a package (an import path, or relative to the calling test's directory) with the build tag "guest". It
// runs them as root in m, which comes from Start, in a directory with the package's testdata, and repeats their results as subtests of
// t. If -run has further elements, they select the tests in the guest. Further arguments go to the test binary: -test.run=REGEXP, or
// the package's own flags. It reports whether all passed.
func RunTests(t *testing.T, m *VM, pkg string, args ...string) bool {
	t.Helper()
	limit := testLimit(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit+giveUp, fmt.Errorf("the guest does not end its tests after %v", limit))
	defer cancel()
	args = append(slices.Clone(args), selected(flag.Lookup("test.run").Value.String(), t.Name())...)
	output, err := runTests(ctx, m, pkg, limit, args)
	if err != nil {
		t.Fatalf("run tests of %s in the guest: %v; its logs: %s", pkg, err, m.dir.kept)
	}
	if !replayOutput(t, pkg, output) {
		t.Errorf("tests of %s failed in the guest; its logs: %s", pkg, m.dir.kept)
		return false
	}
	return true
}

// runTests returns the output of the test binary.
func runTests(ctx context.Context, m *VM, pkg string, limit time.Duration, args []string) (string, error) {
	dir, err := os.MkdirTemp(m.dir.path, outputs+"-")
	if err != nil {
		return "", err
	}
	binary, err := compileTest(ctx, pkg, dir)
	if err != nil {
		return "", err
	}
	guestDir := "/var/lib/" + filepath.Base(dir)
	if err := m.CopyTo(ctx, binary.path, guestDir+"/test"); err != nil {
		return "", err
	}
	if binary.testdata != "" {
		if err := m.CopyTo(ctx, binary.testdata, guestDir+"/testdata"); err != nil {
			return "", err
		}
	}
	// A file, so that one can watch it: the results come only at the end.
	output, err := os.Create(dir + ".txt")
	if err != nil {
		return "", err
	}
	defer output.Close()
	cmd := append([]string{"sh", "-c", `cd "$0" && exec ./test "$@" 2>&1`, guestDir}, testFlags(limit, args)...)
	err = m.RunWith(ctx, Files{Stdout: output}, cmd...)
	var failed *ssh.ExitError
	if err != nil && !errors.As(err, &failed) {
		return "", fmt.Errorf("%w; output so far: %s", err, tail(output.Name()))
	}
	return output.Name(), nil
}

// testFlags make a test binary print its results for test2json and end before the host gives up.
func testFlags(limit time.Duration, args []string) []string {
	return append([]string{"-test.v=test2json", "-test.paniconexit0", "-test.timeout=" + limit.String()}, args...)
}

// selected returns the flag that selects tests in the guest by the rest of -run. For -run 'TestDaemon/TestReload'
// it is -test.run=TestReload. Slashes within brackets are not understood.
func selected(run, test string) []string {
	elements := strings.Split(run, "/")
	depth := strings.Count(test, "/") + 1
	if len(elements) <= depth {
		return nil
	}
	return []string{"-test.run=" + strings.Join(elements[depth:], "/")}
}

// testLimit returns the timeout of tests in a guest.
func testLimit(t *testing.T) time.Duration {
	deadline, ok := t.Deadline()
	if !ok {
		return defaultTestLimit
	}
	return max(time.Until(deadline)-testGrace, time.Second).Round(time.Second)
}

// replayOutput repeats the output of a test binary in a file as results of subtests of t.
func replayOutput(t *testing.T, pkg, output string) bool {
	t.Helper()
	f, err := os.Open(output)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	convert := exec.CommandContext(t.Context(), "go", "tool", "test2json", "-p", pkg)
	convert.Stdin = f
	events, err := convert.Output()
	if err != nil {
		t.Fatalf("convert output of tests: %v", err)
	}
	run, err := replay.Parse(bytes.NewReader(events))
	if err != nil {
		t.Fatal(err)
	}
	return replay.Report(t, run)
}
