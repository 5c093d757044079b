package vm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// guestTag is the build tag of tests that are meant to run in a guest only.
const guestTag = "guest"

// testBinary is a compiled test of one package.
type testBinary struct {
	pkg      string // import path
	path     string
	testdata string // the package's directory of that name, or ""
}

// compileTest compiles the tests of a package for the guest, with the build tag "guest", to dir/test. It is one static file.
func compileTest(ctx context.Context, pkg, dir string) (testBinary, error) {
	listed, err := goCommand(ctx, "list", "-tags", guestTag, "-f", "{{.ImportPath}}\n{{.Dir}}", pkg)
	if err != nil {
		return testBinary{}, err
	}
	importPath, source, ok := strings.Cut(strings.TrimSpace(string(listed)), "\n")
	if !ok || strings.Contains(source, "\n") {
		return testBinary{}, fmt.Errorf("find package %s: not exactly one: %q", pkg, listed)
	}
	b := testBinary{pkg: importPath, path: filepath.Join(dir, "test")}
	if _, err := goCommand(ctx, "test", "-c", "-tags", guestTag, "-ldflags=-s -w", "-o", b.path, importPath); err != nil {
		return testBinary{}, err
	}
	if _, err := os.Stat(b.path); err != nil {
		return testBinary{}, fmt.Errorf("compile tests of %s: no tests with the build tag %q", importPath, guestTag)
	}
	if info, err := os.Stat(filepath.Join(source, "testdata")); err == nil && info.IsDir() {
		b.testdata = filepath.Join(source, "testdata")
	}
	return b, nil
}

// goCommand runs the go command for the guest's platform and returns its standard output.
func goCommand(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
