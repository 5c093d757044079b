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

// EarlierRevision is the default of the flag -earlier: tests of upgrades begin with this revision of the repository and go back to it. The
// configuration and the journal in internal/config/testdata/earlier and internal/node/undo/testdata/journal are of this revision, too. It has the
// daemon, the webhook and deploy/. It does not support static pods, other managers or depletion.
const EarlierRevision = "51e8e3a0b8fba08c6ab2720a8db36404222760b7"

// ErrNoRevision reports that the history of this clone does not contain a revision.
var ErrNoRevision = errors.New("this clone's history does not go back to it (git fetch --unshallow)")

// CheckOut writes the files of an earlier revision of this repository into a directory: those below the paths, or all of them without paths.
// The error is ErrNoRevision if the clone does not have the revision.
func CheckOut(ctx context.Context, revision, dir string, paths ...string) error {
	root, err := rootWith(ctx, revision)
	if err != nil {
		return err
	}
	const script = `root=$0 revision=$1 dir=$2; shift 2
		git -C "$root" archive -o "$dir/source.tar" "$revision" "$@" && tar -x -f "$dir/source.tar" -C "$dir" && rm "$dir/source.tar"`
	checkout := exec.CommandContext(ctx, "sh", append([]string{"-c", script, root, revision, dir}, paths...)...)
	if out, err := checkout.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch the files of revision %s: %w: %s", revision, err, out)
	}
	return nil
}

// rootWith returns the directory of this repository, or ErrNoRevision if its history does not contain the revision.
func rootWith(ctx context.Context, revision string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if err := exec.CommandContext(ctx, "git", "-C", root, "cat-file", "-e", revision+"^{commit}").Run(); err != nil {
		return "", fmt.Errorf("find revision %s: %w", revision, ErrNoRevision)
	}
	return root, nil
}

// BuildRevision returns a static program for guests, of a package at an earlier revision of this repository. Pkg is relative to the repository,
// like cmd/cpupoold. The program is built once for each compiler, and kept in the cache. The error is ErrNoRevision if the clone does not have
// the revision.
func BuildRevision(ctx context.Context, revision, pkg string) (string, error) {
	if _, err := rootWith(ctx, revision); err != nil {
		return "", err
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
	if err := CheckOut(ctx, revision, source); err != nil {
		return "", err
	}
	built := filepath.Join(source, "program")
	if _, err := goCommand(ctx, "-C", source, "build", "-trimpath", "-buildvcs=false", "-o", built, "./"+pkg); err != nil {
		return "", fmt.Errorf("build revision %s: %w", revision, err)
	}
	return program, os.Rename(built, program)
}
