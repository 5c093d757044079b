package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// progress shows on a terminal how many steps are done.
type progress struct {
	w    io.Writer // nil without a terminal
	what string
	done int
}

func newProgress(w io.Writer, what string) *progress {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &progress{w: w, what: what}
	}
	return &progress{}
}

// step counts a step of all. Of very many steps it shows each hundredth.
func (p *progress) step(all int) {
	if p.done++; p.w != nil && (p.done%max(all/100, 1) == 0 || p.done == all) {
		fmt.Fprintf(p.w, "\r%d of %d %s", p.done, all, p.what)
	}
}

func (p *progress) end() {
	if p.w != nil && p.done > 0 {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
