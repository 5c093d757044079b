package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// ErrNoRevision says that the history of this clone does not go back to a revision.
var ErrNoRevision = errors.New("this clone's history does not go back to it (git fetch --unshallow)")

// BuildRevision returns a static program for guests, of a package at an earlier revision of this repository. Pkg is relative to the
// repository, like cmd/cpupoold. It is built once for each compiler, and kept in the cache. The error is ErrNoRevision where there is no
// such revision.
func BuildRevision(ctx context.Context, revision, pkg string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if err := exec.CommandContext(ctx, "git", "-C", root, "cat-file", "-e", revision+"^{commit}").Run(); err != nil {
		return "", fmt.Errorf("find revision %s: %w", revision, ErrNoRevision)
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	compiler, err := goCommand(ctx, "env", "GOVERSION")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "vm", "revisions")
	program := filepath.Join(dir, strings.Join([]string{path.Base(pkg), revision, strings.TrimSpace(string(compiler))}, "-"))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	source, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(source)
	checkout := exec.CommandContext(ctx, "sh", "-c", `git -C "$0" archive -o "$2/source.tar" "$1" && tar -x -f "$2/source.tar" -C "$2"`, root, revision, source)
	if out, err := checkout.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch the files of revision %s: %w: %s", revision, err, out)
	}
	built := filepath.Join(source, "program")
	if _, err := goCommand(ctx, "-C", source, "build", "-trimpath", "-buildvcs=false", "-o", built, "./"+pkg); err != nil {
		return "", fmt.Errorf("build revision %s: %w", revision, err)
	}
	return program, os.Rename(built, program)
}
