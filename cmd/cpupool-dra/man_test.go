package main

import (
	"flag"
	"io"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/manpages"
)

var update = flag.Bool("update", false, "rewrite the page in docs/reference/man")

func TestManPages(t *testing.T) {
	manpages.Check(t, command(io.Discard), "../../docs/reference/man", "8", *update)
}
