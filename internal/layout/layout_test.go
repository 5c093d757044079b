//go:build linux

package layout_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/layout"
)

const longName = "a-very-long-name-of-a-pod-in-a-namespace"

// printText prints a table and a paragraph.
func printText(w io.Writer) error {
	t := layout.NewTable("POD", "REASON", "CPUS")
	t.Row(longName, "a sentence that explains the placement", "")
	t.Row("\x1b[2Jx", "ü", "0-3")
	return layout.Print(w, func(w *layout.Writer) {
		w.Table(t)
		w.Paragraph("codes: a paragraph that is longer than the terminal")
	})
}

// inPipe is the text without a terminal.
const inPipe = `POD                                       REASON                                  CPUS
a-very-long-name-of-a-pod-in-a-namespace  a sentence that explains the placement  -
?[2Jx                                     ü                                       0-3
codes: a paragraph that is longer than the terminal
`

func TestWidth(t *testing.T) {
	for columns, want := range map[int]string{
		0: inPipe,
		40: `POD               REASON            CPUS
a-very-…amespace  a sentence that…  -
?[2Jx             ü                 0-3
codes: a paragraph that is longer than
  the terminal
`,
	} {
		var out strings.Builder
		w := layout.NewWriter(&out, columns)
		if err := printText(w); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", columns, diff)
		}
	}
}

// TestTerminal checks that the size of a pseudo terminal and COLUMNS limit the text, and that
// COLUMNS has no effect in a pipe.
func TestTerminal(t *testing.T) {
	for _, c := range []struct{ size, env, want int }{{60, 0, 60}, {60, 40, 40}, {0, 0, 80}, {5, 0, 20}} {
		if got := layout.Columns(layout.Output(terminal(t, uint16(c.size)), fmt.Sprint(c.env))); got != c.want {
			t.Errorf("terminal of %d columns with COLUMNS=%d: %d; want %d", c.size, c.env, got, c.want)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := printText(layout.Output(w, "40")); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != inPipe {
		t.Errorf("in a pipe: %v\n%s\nwant\n%s", err, got, inPipe)
	}
}

// terminal returns a pseudo terminal with this number of columns.
func terminal(t *testing.T, columns uint16) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	return slave
}
