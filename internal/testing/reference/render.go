package reference

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Hold compares the page in Markdown and that of the manual with the files, relative to the caller's
// directory. With update it writes them first; command is how one does that.
func (p *Page) Hold(t *testing.T, update bool, markdown, manual, command string) {
	t.Helper()
	for name, text := range map[string]string{markdown: p.markdown(command), manual: p.manual(strings.TrimSuffix(filepath.Base(manual), ".5"))} {
		if update {
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil { //nolint:gosec // a page of the documentation
				t.Fatal(err)
			}
		}
		was, err := os.ReadFile(name) //nolint:gosec // named by the test
		if err != nil || string(was) != text {
			t.Errorf("%s is not up to date, %v: run %s (-want +got):\n%s", name, err, command, cmp.Diff(text, string(was)))
		}
	}
}

// shown is the default as people read it.
func (e Entry) shown() string {
	switch {
	case e.Default == "":
		return "required"
	case strings.HasPrefix(e.Default, "("):
		return strings.Trim(e.Default, "()")
	default:
		return "`" + e.Default + "`"
	}
}

func (e Entry) restart() string {
	if e.Restart {
		return " Needs a restart."
	}
	return ""
}

func (p *Page) markdown(command string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", p.Title)
	for _, text := range p.Head {
		fmt.Fprintf(&b, "%s\n\n", text)
	}
	fmt.Fprintf(&b, "`%s` writes this page. A test loads each example, and compares each default with the code.\n\n", command)
	b.WriteString("| key | value | default | meaning | example |\n|---|---|---|---|---|\n")
	cell := strings.NewReplacer("|", "\\|").Replace
	for _, e := range p.Entries {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | `%s` |\n", e.Key, cell(e.Value), cell(e.shown()), cell(e.Text+e.restart()),
			strings.ReplaceAll(cell(e.Example), "\n", "`<br>`"))
	}
	return b.String()
}

// manual is the page in the macros of man(7).
func (p *Page) manual(name string) string {
	var b strings.Builder
	plain := strings.NewReplacer("`", "", "\\", "\\e", "-", "\\-").Replace
	line := func(text string) string {
		if text = plain(text); strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
			return "\\&" + text
		}
		return text
	}
	fmt.Fprintf(&b, ".TH \"%s\" \"5\" \"Jan 2026\" \"cpupoold\" \"CPU pools\"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n", strings.ToUpper(plain(name)), plain(name), line(p.Title))
	for _, text := range p.Head {
		fmt.Fprintf(&b, ".PP\n%s\n", line(text))
	}
	b.WriteString(".SH KEYS\n")
	for _, e := range p.Entries {
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fP\n%s\n.br\nValue: %s. Default: %s.\n.br\nExample: %s\n",
			plain(e.Key), line(e.Text+e.restart()), plain(e.Value), plain(e.shown()), strings.ReplaceAll(plain(e.Example), "\n", "\n.br\n"))
	}
	return b.String()
}
