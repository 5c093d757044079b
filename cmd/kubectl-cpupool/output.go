package main

import (
	"fmt"
)

// checkOutput returns what is wrong with a value of -o.
func checkOutput(format string) error {
	if format != "text" && format != "json" {
		return fmt.Errorf("--output %q: no such format; write text or json", format)
	}
	return nil
}
