package layout

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/term"
)

// narrowest is the smallest width of a terminal for which text is cut.
const narrowest = 20

// Writer buffers text. It keeps the first error, and the width of the terminal.
type Writer struct {
	*bufio.Writer
	columns int
}

// NewWriter returns a writer for a terminal with this number of columns, see [Columns], or for
// a file if it is 0.
func NewWriter(w io.Writer, columns int) *Writer { return &Writer{bufio.NewWriter(w), columns} }

// Print calls write with a writer to a terminal or a file, and returns the first error.
func Print(to io.Writer, write func(w *Writer)) error {
	w := NewWriter(to, Columns(to))
	write(w)
	return w.Flush()
}

// Paragraph writes a paragraph.
func (w *Writer) Paragraph(text string) {
	for _, line := range wrap(text, "  ", w.columns) {
		fmt.Fprintln(w, line)
	}
}

// Output returns a writer to a file whose text is as wide as columns states, the value of the
// environment variable COLUMNS, if the file is a terminal.
func Output(f *os.File, columns string) io.Writer {
	n, err := strconv.Atoi(columns)
	if err != nil || n <= 0 || !term.IsTerminal(int(f.Fd())) {
		return f
	}
	return output{f, n}
}

type output struct {
	*os.File
	columns int
}

// Columns returns the width of the terminal that w writes to, and 0 if w is no terminal.
func Columns(w io.Writer) int {
	columns := 0
	switch w := w.(type) {
	case *Writer:
		return w.columns
	case output:
		columns = w.columns
	case *os.File:
		if !term.IsTerminal(int(w.Fd())) {
			return 0
		}
		if columns, _, _ = term.GetSize(int(w.Fd())); columns == 0 {
			columns = 80 // the terminal does not report its size
		}
	default:
		return 0
	}
	return max(columns, narrowest)
}
