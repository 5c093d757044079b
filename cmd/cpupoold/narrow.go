package main

import (
	"io"

	"github.com/cpupoold/cpupoold/internal/layout"
)

// screen is how wide a table for people is at most, in characters.
const screen = layout.Width

// narrow is a table of columns that are cut where they do not all fit.
type narrow struct{ table layout.Table }

func (t *narrow) row(cells ...string) { t.table.Row(cells...) }

func (t *narrow) print(w io.Writer) error { return t.table.Print(w) }

// wrap breaks a text into lines of at most the screen's width, those behind the first
// indented.
func wrap(s string) []string { return layout.Wrap(s, "  ") }
