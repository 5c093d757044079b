// Package manpages compares the manual pages and the list of commands in docs/reference with
// the commands of a program. Only tests import it.
package manpages

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Check compares the pages of a command and of those below it with the files in dir, one
// of each, in a section of the manual such as "8". With update it writes them first.
func Check(t *testing.T, root *cobra.Command, dir, section string, update bool) {
	t.Helper()
	root.InitDefaultHelpCmd()
	root.InitDefaultVersionFlag()
	var known []string
	for _, c := range documented(root) {
		name := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+"."+section)
		known = append(known, name)
		text := page(t, c, section)
		if update {
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		was, err := os.ReadFile(name) //nolint:gosec // named by the program's own commands
		if err != nil || !bytes.Equal(was, text) {
			t.Errorf("%s is not up to date, %v: run this test with -update (-want +got):\n%s", name, err, cmp.Diff(string(text), string(was)))
		}
	}
	there, err := filepath.Glob(filepath.Join(dir, root.Name()+"*."+section))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range there {
		if !slices.Contains(known, name) {
			t.Errorf("%s is about no command: remove it", name)
		}
	}
	checkList(t, root, filepath.Join(dir, "..", "cli.md"))
}

// checkList checks that the section of a program in the list of commands names each command
// once in the first column of its table, and no other.
func checkList(t *testing.T, root *cobra.Command, file string) {
	t.Helper()
	list, err := os.ReadFile(file) //nolint:gosec // named by the test
	if err != nil {
		t.Fatal(err)
	}
	title := strings.Replace(root.Name(), "kubectl-", "kubectl ", 1)
	_, section, _ := strings.Cut(string(list), "\n## "+title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var got []string
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		for i, word := range strings.Split(cells[min(1, len(cells)-1)], "`") {
			if fields := strings.Fields(strings.TrimPrefix(word, title+" ")); len(cells) > 1 && i%2 == 1 && len(fields) > 0 {
				got = append(got, fields[0])
			}
		}
	}
	var want []string
	for _, c := range root.Commands() {
		if !c.Hidden && c.Name() != "help" && c.Name() != "completion" {
			want = append(want, c.Name())
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, commands of %s (-want +got):\n%s", file, title, diff)
	}
}

// documented are a command and those below it that have a page.
func documented(c *cobra.Command) (all []*cobra.Command) {
	if c.Hidden || c.Name() == "help" {
		return nil
	}
	all = append(all, c)
	for _, sub := range c.Commands() {
		all = append(all, documented(sub)...)
	}
	return all
}

// page is the same on every day.
func page(t *testing.T, c *cobra.Command, section string) []byte {
	t.Helper()
	date := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	if err := doc.GenMan(c, &doc.GenManHeader{Section: section, Source: "cpupoold", Manual: "CPU pools", Date: &date}, &b); err != nil {
		t.Fatal(err)
	}
	text, _, _ := bytes.Cut(b.Bytes(), []byte("\n.SH HISTORY")) // which names the day of its making
	return append(text, '\n')
}
