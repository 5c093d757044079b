package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	tutorials       = "../../docs/tutorials"
	tutorialTimeout = 10 * time.Minute // go install may have to compile all libraries.
)

// command is a command of a tutorial with the output that the page shows.
type command struct {
	line   int // of the page, from 1
	text   string
	output []string
}

// serves reports whether the command runs until it is ended.
func (c *command) serves() bool {
	return strings.Contains(c.text, "kubectl-cpupool serve ") && !strings.Contains(c.text, "--svg")
}

// TestTutorials runs the commands of each tutorial in one shell, and compares their
// output with the page. With -update it writes the output into the page.
func TestTutorials(t *testing.T) {
	var pages []string
	// go test repeats a cached test when a directory that it has read changes: here the files
	// that the commands read.
	err := filepath.WalkDir(tutorials, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil || len(pages) == 0 {
		t.Fatalf("pages = %d in %s, %v; want some", len(pages), tutorials, err)
	}
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			src, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(string(src), "\n")
			commands, err := readCommands(lines)
			if err != nil {
				t.Fatalf("%s:%v", page, err)
			}
			if len(commands) == 0 {
				return
			}
			shell := startShell(t)
			for i := range commands {
				c := &commands[i]
				run := shell.run
				if c.serves() {
					run = func(t *testing.T, text string) []string { return shell.serve(t, text, pictureOf(t, string(src))) }
				}
				got := run(t, c.text)
				if diff := cmp.Diff(c.output, got); diff != "" && !*update {
					t.Errorf("%s:%d: %s (-page +output):\n%s", page, c.line, c.text, diff)
				}
				c.output = got
			}
			if *update {
				if err := os.WriteFile(page, []byte(strings.Join(withOutput(lines, commands), "\n")), 0o644); err != nil { //nolint:gosec // to be read by all
					t.Fatal(err)
				}
			}
		})
	}
}

// TestReadme runs the command of the README's console block, and checks that it prints the
// lines that the README shows. The README leaves out the other lines.
func TestReadme(t *testing.T) {
	src, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(src), "\n```console\n$ ")
	block, _, found := strings.Cut(rest, "\n```\n")
	text, want, isShown := strings.Cut(block, "\n")
	if !found || !isShown {
		t.Fatal("README.md lacks a console block with a command and its output")
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", text)
	cmd.Dir, cmd.Stderr = "../..", t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	got := strings.Split(string(out), "\n")
	for line := range strings.SplitSeq(want, "\n") {
		if !slices.Contains(got, line) {
			t.Errorf("README.md has a line that is not in the output of %q: %s\n%s", text, line, out)
		}
	}
}

// notRun matches the comment above a block that no test can run.
var notRun = regexp.MustCompile(`^<!-- not run: \S.* -->$`)

// readCommands returns the commands of the console blocks of a page: lines that start with
// "$ ", and lines after one that ends in a backslash. All other lines are output. It is an
// error if a fenced block is neither a console block nor has the comment that notRun matches.
func readCommands(lines []string) ([]command, error) {
	var all []command
	for i := 0; i < len(lines); i++ {
		fence := strings.TrimSpace(lines[i])
		if !strings.HasPrefix(fence, "```") {
			continue
		}
		begin := i + 1
		size := slices.IndexFunc(lines[begin:], func(l string) bool { return strings.TrimSpace(l) == "```" })
		if size < 0 {
			return nil, fmt.Errorf("%d: block without an end", begin)
		}
		i = begin + size
		if begin >= 2 && notRun.MatchString(lines[begin-2]) {
			continue
		}
		if fence != "```console" || fence != lines[begin-1] {
			return nil, fmt.Errorf("%d: block is not run; make it a console block, or write <!-- not run: reason --> above it", begin)
		}
		var block []command
		for at, l := range lines[begin:i] {
			text, isCommand := strings.CutPrefix(l, "$ ")
			last := len(block) - 1
			switch {
			case last >= 0 && len(block[last].output) == 0 && strings.HasSuffix(block[last].text, `\`):
				block[last].text += "\n" + l
			case isCommand:
				block = append(block, command{line: begin + 1 + at, text: text})
			case last < 0:
				return nil, fmt.Errorf("%d: block starts with output; want a line that starts with \"$ \"", begin)
			default:
				block[last].output = append(block[last].output, l)
			}
		}
		if len(block) == 0 {
			return nil, fmt.Errorf("%d: block has no command", begin)
		}
		all = append(all, block...)
	}
	return all, nil
}

// withOutput returns the lines of a page with the output of commands instead of the output
// that it had.
func withOutput(lines []string, commands []command) []string {
	var page []string
	at := 0
	for _, c := range commands {
		end := c.line + strings.Count(c.text, "\n")
		page = append(append(page, lines[at:end]...), c.output...)
		at = end
		for lines[at] != "```" && !strings.HasPrefix(lines[at], "$ ") {
			at++
		}
	}
	return append(page, lines[at:]...)
}

// pictureOf returns the first picture that a page shows.
func pictureOf(t *testing.T, page string) string {
	t.Helper()
	link := regexp.MustCompile(`!\[[^]]*\]\(([^)]+\.svg)\)`).FindStringSubmatch(page)
	if link == nil {
		t.Fatal("the page starts serve and lacks its picture")
	}
	return filepath.Join(tutorials, link[1])
}

// shell is a bash that runs the commands of a page.
type shell struct {
	to   io.Writer
	from *bufio.Reader
}

// startShell starts a shell in the root of the repository. Its commands install programs in
// a temporary directory, and compile them as make build does.
func startShell(t *testing.T) *shell {
	t.Helper()
	modules, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	// The context of the test ends before its cleanup, which ends the shell.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), tutorialTimeout)
	bash := exec.CommandContext(ctx, "bash", "--norc")
	bash.Dir = "../.."
	bash.Env = append(os.Environ(), "GOBIN=", "GOPATH="+t.TempDir(), "GOMODCACHE="+strings.TrimSpace(string(modules)), "CGO_ENABLED=0", "LC_ALL=C")
	bash.Cancel = func() error { return bash.Process.Signal(syscall.SIGTERM) }
	bash.WaitDelay = 5 * time.Second
	to, err := bash.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	from, err := bash.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bash.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer cancel()
		if err := errors.Join(to.Close(), bash.Wait()); err != nil {
			t.Errorf("shell ended: %v", err)
		}
	})
	s := &shell{to, bufio.NewReader(from)}
	s.write(t, "exec 2>&1; trap 'kill $(jobs -p) 2>/dev/null; exit 0' EXIT; trap 'exit 1' TERM\n")
	return s
}

func (s *shell) write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(s.to, text); err != nil {
		t.Fatal(err)
	}
}

func (s *shell) read(t *testing.T) string {
	t.Helper()
	line, err := s.from.ReadString('\n')
	if err != nil {
		t.Fatalf("after %q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// run returns the lines that a command prints. The command leaves its exit code to the next
// one.
func (s *shell) run(t *testing.T, text string) []string {
	t.Helper()
	const end = "-- end of the command --"
	// The braces keep cd and export in this shell. status takes the place of $?, which echo
	// would overwrite.
	s.write(t, "(exit ${status:-0}); {\n"+text+"\n} </dev/null; status=$?; echo '"+end+"'\n")
	var lines []string
	for {
		line := s.read(t)
		rest, ended := strings.CutSuffix(line, end)
		if rest != "" || !ended {
			lines = append(lines, rest)
		}
		if ended {
			return slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "go: downloading ") })
		}
	}
}

// serve starts a command that ends in serve, on a free port, since another program may have
// the port of the page. It checks the page and its picture, ends the command, and returns
// its output with the port that serve has without --listen.
func (s *shell) serve(t *testing.T, text, picture string) []string {
	t.Helper()
	s.write(t, text+" --listen 127.0.0.1:0 &\n")
	address := s.read(t)
	get := func(path string) string { return fetched(t, address+path) }
	if page := get(""); !strings.Contains(page, "<title>CPU pools</title>") {
		t.Errorf("page of %s = %.300s; want the title CPU pools", address, page)
	}
	get("state?after=0") // It is answered when serve has read the simulation.
	drawn := get("picture.svg")
	if *update {
		if err := os.WriteFile(picture, []byte(drawn), 0o644); err != nil { //nolint:gosec // to be read by all
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if drawn != string(want) {
		t.Errorf("%spicture.svg differs from %s", address, picture)
	}
	if rest := s.run(t, "kill $! && wait $!; echo $?"); !slices.Equal(rest, []string{"0"}) {
		t.Errorf("serve printed and ended with %q; want 0", rest)
	}
	port := regexp.MustCompile(`^http://127\.0\.0\.1:\d+/$`)
	return []string{port.ReplaceAllString(address, "http://"+serveCommand(streams{}).Flag("listen").DefValue+"/")}
}

// fetched returns the answer of a server to a request that succeeds.
func fetched(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, answer.Status, err)
	}
	return string(body)
}

// TestReadCommands checks how readCommands divides a block into commands, output and
// errors.
func TestReadCommands(t *testing.T) {
	tests := []struct {
		name, page string
		want       []command
		err        string
	}{
		{
			name: "commands and output",
			page: "Text.\n```console\n$ a\n1\n\n2\n$ b \\\n  c\n3\n```\nText.",
			want: []command{{3, "a", []string{"1", "", "2"}}, {7, "b \\\n  c", []string{"3"}}},
		},
		{name: "not run", page: "<!-- not run: it needs a node -->\n```sh\na\n```"},
		{name: "no comment", page: "```sh\na\n```", err: "1: block is not run"},
		{name: "comment without a reason", page: "<!-- not run: -->\n```sh\na\n```", err: "2: block is not run"},
		{name: "comment above another block", page: "<!-- not run: it needs a node -->\n```sh\na\n```\n```sh\nb\n```", err: "5: block is not run"},
		{name: "indented block", page: "- Text\n  ```console\n  $ a\n  ```", err: "2: block is not run"},
		{name: "output first", page: "```console\n1\n$ a\n```", err: "1: block starts with output"},
		{name: "no command", page: "```console\n```", err: "1: block has no command"},
		{name: "no end", page: "```console\n$ a\n", err: "1: block without an end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readCommands(strings.Split(tt.page, "\n"))
			if tt.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(command{})); diff != "" {
				t.Errorf("commands (-want +got):\n%s", diff)
			}
		})
	}
}
