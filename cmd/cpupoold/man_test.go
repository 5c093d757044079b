package main

import (
	"flag"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/manpages"
)

var update = flag.Bool("update", false, "rewrite the pages in docs/reference/man and the tables in testdata")

func TestManPages(t *testing.T) {
	manpages.Check(t, (&app{}).command(), "../../docs/reference/man", "8", *update)
}
