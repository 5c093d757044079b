package main

import (
	"encoding/json"
	"fmt"
	"io"
)

// checkOutput returns what is wrong with a value of -o.
func checkOutput(format string) error {
	if format != "text" && format != "json" {
		return fmt.Errorf("--output %q: no such format; write text or json", format)
	}
	return nil
}

// printJSON prints a document as people can read it, too.
func printJSON(w io.Writer, document any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(document)
}
