package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/viewer"
)

// maxReport bounds what a report is unpacked to, in bytes: twice what cpupoold puts into one.
const maxReport = 64 << 20

// archived reports whether a file is a report, and not a status.
func archived(file string) bool {
	return strings.HasSuffix(file, ".gz") || strings.HasSuffix(file, ".tgz")
}

// inReport returns a reader of one file of a report.
func inReport(r io.Reader, name, otherwise string) (io.Reader, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	for t := tar.NewReader(io.LimitReader(z, maxReport)); ; {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("there is no %s in it: %s", name, otherwise)
		case err != nil:
			return nil, err
		case path.Base(h.Name) == name:
			return t, nil
		}
	}
}

// explainedInReport returns the explanation of one container or unit in a report.
func explainedInReport(file string, c *inspect.Container) (*inspect.Explanation, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in, err := inReport(f, "explanations.json", "it is of an older cpupoold, or its MISSING.txt states the reason")
	if err != nil {
		return nil, named(file, err)
	}
	e, err := viewer.ReadExplanation(in)
	if err != nil {
		return nil, named(file, err)
	}
	return viewer.Only(e, c)
}
