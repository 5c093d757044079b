package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// release is the state of a build. Each step fills in fields for the later ones.
type release struct {
	version version
	commit  string
	time    time.Time // of the commit; all files in archives have it
	image   string    // repository of the image
	url     string    // address of the release files, without the tag
	digest  string    // of the image for all architectures, sha256:...
	modules []*dependency
	work    string // temporary directory
	out     string // directory of the release files
	log     io.Writer
}

// find sets version and commit from the repository's HEAD. The version is given, or the tag
// of HEAD.
func (r *release) find(ctx context.Context, repository, given string) error {
	changes, err := git(ctx, repository, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("the working tree has changes, which the release would not have; commit or remove them:\n%s", changes)
	}
	tags, err := git(ctx, repository, "tag", "--points-at", "HEAD", "--list", "v*")
	if err != nil {
		return err
	}
	if r.version, err = chooseVersion(given, strings.Fields(tags)); err != nil {
		return err
	}
	if r.commit, err = git(ctx, repository, "rev-parse", "HEAD"); err != nil {
		return err
	}
	stamp, err := git(ctx, repository, "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return fmt.Errorf("parse time of the commit: %w", err)
	}
	r.time = time.Unix(seconds, 0).UTC()
	return nil
}

// make builds all files. Later steps use files and fields of the earlier ones.
func (r *release) make(ctx context.Context, repository string) error {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"clone " + r.commit, func(ctx context.Context) error { return r.clone(ctx, repository) }},
		{"programs", r.programs},
		{"completions", r.completions},
		{"licences", r.licences},
		{"bills of materials", func(context.Context) error { return r.materials() }},
		{"image", r.makeImage},
		{"manifests", r.manifests},
		{"chart", r.chart},
		{"archives", r.archives},
		{"packages", r.packages},
		{"krew manifest", r.krew},
		{"checksums", r.checksums},
	} {
		start := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("make %s: %w", step.name, err)
		}
		fmt.Fprintf(r.log, "%s: %s, %.1f s\n", r.version, step.name, time.Since(start).Seconds())
	}
	return nil
}

// clone checks the commit out into the directory source, with a tag of the release, from
// which Go takes the version of the module.
func (r *release) clone(ctx context.Context, repository string) error {
	repository, err := filepath.Abs(repository)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		dir  string
		args []string
	}{
		{repository, []string{"clone", "--quiet", "--shared", "--no-tags", "--no-checkout", repository, r.source()}},
		{r.source(), []string{"checkout", "--quiet", "--detach", r.commit}},
		{r.source(), []string{"tag", r.version.tag()}},
	} {
		if _, err := git(ctx, c.dir, c.args...); err != nil {
			return err
		}
	}
	return nil
}

// source returns the path of a file in the clone.
func (r *release) source(names ...string) string {
	return filepath.Join(append([]string{r.work, "source"}, names...)...)
}

// built returns the path of a file that is part of several release files.
func (r *release) built(names ...string) string {
	return filepath.Join(append([]string{r.work, "built"}, names...)...)
}

// git runs a command of Git and returns its output without the last newline.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := command(ctx, dir, nil, "git", args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// command runs a program with additional variables in its environment, and returns its output.
func command(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out, nil
}

// writeFile writes a file with its directories.
func writeFile(name string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, mode)
}
