package main

import (
	"flag"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/manpages"
)

var update = flag.Bool("update", false, "rewrite the pages in docs/reference/man")

func TestManPages(t *testing.T) {
	manpages.Check(t, rootCommand(streams{}), "../../docs/reference/man", "1", *update)
}
