package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository makes a repository with one commit, and returns its directory.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "file", "text")
	gitIn(t, dir, "init", "-q")
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-qm", "x")
	return dir
}

func gitIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := writeFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRunRefuses checks that no file is written where the release would not match a commit.
func TestRunRefuses(t *testing.T) {
	clean, changed, untracked, used := repository(t), repository(t), repository(t), t.TempDir()
	write(t, changed, "file", "other")
	write(t, untracked, "new", "text")
	write(t, used, "file", "text")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"argument":          {[]string{"x"}, `unexpected argument "x"`},
		"change":            {[]string{"-repository", changed, "-version", "0.1.0"}, "M file"},
		"new file":          {[]string{"-repository", untracked, "-version", "0.1.0"}, "?? new"},
		"no tag":            {[]string{"-repository", clean}, "0 tags"},
		"no version":        {[]string{"-repository", clean, "-version", "1"}, `parse version "1"`},
		"no repository":     {[]string{"-repository", t.TempDir(), "-version", "0.1.0"}, "git"},
		"used directory":    {[]string{"-repository", clean, "-version", "0.1.0", "-o", used}, "is not empty"},
		"no such directory": {[]string{"-repository", clean, "-version", "0.1.0", "-o", filepath.Join(used, "file", "x")}, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := run(t.Context(), c.args, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want an error with %q", err, c.want)
			}
			if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
				t.Errorf("wrote %v, %v; want nothing", entries, err)
			}
		})
	}
}

// TestSetValues checks that image and tag are set, and that another block with the same keys stays.
func TestSetValues(t *testing.T) {
	v, err := parseVersion("0.1.0+a")
	if err != nil {
		t.Fatal(err)
	}
	r := &release{version: v, image: "registry.example.com/x", digest: "sha256:abc"}
	const text = "# head\nother:\n  tag: \"1\"\nimage:\n  repository: localhost/x # comment\n  tag: \"\"\n  digest: \"\" # comment\n  pullPolicy: Always\n"
	const want = "# head\nother:\n  tag: \"1\"\nimage:\n  repository: registry.example.com/x # comment\n  tag: \"0.1.0_a\"\n  digest: \"sha256:abc\" # comment\n  pullPolicy: Always\n"
	if got, err := r.setValues(text); err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if _, err := r.setValues("image:\n  repository: x\n  tag: y\n"); err == nil {
		t.Error("values without a digest returned no error")
	}
}
