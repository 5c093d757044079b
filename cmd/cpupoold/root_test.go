package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/version"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args   string
		want   int
		stderr string // part of it; "" is nothing at all
	}{
		{"version", exitOK, ""},
		{"--version", exitOK, ""},
		{"help run", exitOK, ""},
		{"", exitOK, ""},
		{"pin", exitUsage, `unknown command "pin"`},
		{"version now", exitUsage, "now"},
		{"version -o xml", exitUsage, `"xml" is neither json nor table`},
		{"plan --log-level loud", exitUsage, `flag --log-level: logLevel: "loud": is not a log level`},
		{"version --loud", exitUsage, "unknown flag: --loud"},
		{"restore --dry-run --wait", exitUsage, "--wait is for a restore"},
		{"audit --duration -1s", exitUsage, "--duration -1s"},
		{"audit --interval 1us", exitUsage, "--interval 1µs"},
		{"audit --config /no/such/file", exitError, "/no/such/file"},
		{"plan --config /no/such/file", exitError, "/no/such/file"},
	} {
		var stdout, stderr bytes.Buffer
		got := execute(t.Context(), streams{out: &stdout, err: &stderr}, strings.Fields(c.args))
		if got != c.want || !strings.Contains(stderr.String(), c.stderr) || c.stderr == "" && stderr.Len() > 0 {
			t.Errorf("cpupoold %s: exit code %d; want %d; standard error %q; want %q in it", c.args, got, c.want, &stderr, c.stderr)
		}
		if (stdout.Len() > 0) != (c.want == exitOK) {
			t.Errorf("cpupoold %s: standard output = %q; want output only on success", c.args, &stdout)
		}
	}
}

// TestComplainOfNames checks that a list of names fits the terminal, and that other errors keep
// one line each.
func TestComplainOfNames(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		lines int
	}{
		"names":         {fmt.Errorf("explain: %w", &inspect.NameError{Text: strings.TrimSpace(strings.Repeat("namespace/pod, ", 20))}), 5},
		"joined errors": {errors.Join(errors.New("one"), errors.New(strings.Repeat("two ", 30))), 2},
	} {
		var out bytes.Buffer
		w := layout.NewWriter(&out, 80)
		complain(w, c.err)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		lines := slices.Collect(strings.Lines(out.String()))
		if len(lines) != c.lines || !strings.HasPrefix(lines[0], "cpupoold: ") {
			t.Errorf("%s: %d lines; want %d:\n%s", name, len(lines), c.lines, &out)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line) - 1; c.lines == 5 && n > 80 {
				t.Errorf("%s: columns = %d; want at most 80: %s", name, n, line)
			}
		}
	}
}

// TestVersion checks that the flag and the command print the same.
func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		var stdout, stderr bytes.Buffer
		want := fmt.Sprintf("cpupoold %s\n", version.Read())
		if code := execute(t.Context(), streams{out: &stdout, err: &stderr}, []string{arg}); code != exitOK || stdout.String() != want {
			t.Errorf("cpupoold %s: exit code %d, %q; want %q; standard error %q", arg, code, &stdout, want, &stderr)
		}
	}
}

func TestVersionAsJSON(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := execute(t.Context(), streams{out: &stdout, err: &stderr}, []string{"version", "-o", "json"}); code != exitOK {
		t.Fatalf("exit code = %d; want 0: %s", code, &stderr)
	}
	var got version.Build
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil || got != version.Read() {
		t.Errorf("version -o json = %s, %v; want %+v", &stdout, err, version.Read())
	}
}
