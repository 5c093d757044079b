package main

import (
	"context"
	"path/filepath"
	"runtime"
)

const modulePath = "github.com/cpupoold/cpupoold"

// program is an executable for one platform.
type program struct{ name, os, arch string }

// all returns the programs of a release.
func all() []program {
	return []program{
		{"cpupoold", "linux", "amd64"},
		{"cpupoold", "linux", "arm64"},
		{"cpupool-dra", "linux", "amd64"},
		{"cpupool-dra", "linux", "arm64"},
		{"cpupool-webhook", "linux", "amd64"},
		{"cpupool-webhook", "linux", "arm64"},
		{"kubectl-cpupool", "linux", "amd64"},
		{"kubectl-cpupool", "linux", "arm64"},
		{"kubectl-cpupool", "darwin", "amd64"},
		{"kubectl-cpupool", "darwin", "arm64"},
		{"kubectl-cpupool", "windows", "amd64"},
	}
}

// isInImageOnly reports whether a program runs only in the image.
func (p program) isInImageOnly() bool { return p.name == "cpupool-dra" || p.name == "cpupool-webhook" }

// platform returns the directory of the program below built.
func (p program) platform() string { return p.os + "-" + p.arch }

// file returns the name of the executable.
func (p program) file() string {
	if p.os == "windows" {
		return p.name + ".exe"
	}
	return p.name
}

// goEnv is the environment of all calls of Go. Settings of the caller must not change a program.
func goEnv(goos, goarch string) []string {
	return []string{
		"GOOS=" + goos, "GOARCH=" + goarch, "CGO_ENABLED=0", "GOFLAGS=-trimpath -mod=readonly -buildvcs=true", "GOWORK=off",
		"GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GODEBUG=", "GOFIPS140=off",
	}
}

// programs builds the static programs.
func (r *release) programs(ctx context.Context) error {
	flags := "-s -w -X " + modulePath + "/internal/version.release=" + r.version.tag()
	for _, p := range all() {
		_, err := command(ctx, r.source(), goEnv(p.os, p.arch), "go", "build", "-ldflags", flags,
			"-o", r.built(p.platform(), p.file()), "./cmd/"+p.name)
		if err != nil {
			return err
		}
	}
	return nil
}

// completions writes the completions of the programs that have subcommands.
func (r *release) completions(ctx context.Context) error {
	for _, name := range []string{"cpupoold", "kubectl-cpupool"} {
		for shell, file := range map[string]string{"bash": name, "zsh": "_" + name, "fish": name + ".fish", "powershell": name + ".ps1"} {
			text, err := command(ctx, r.work, nil, r.built(program{name, "linux", runtime.GOARCH}.platform(), name), "completion", shell)
			if err != nil {
				return err
			}
			if err := writeFile(r.built("completions", shell, file), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeImage packs the image for all architectures, and sets its digest.
func (r *release) makeImage(ctx context.Context) error {
	out, err := filepath.Abs(filepath.Join(r.out, "cpupoold-image_"+r.version.String()+".tar"))
	if err != nil {
		return err
	}
	for _, p := range all() {
		if p.os != "linux" || p.name == "kubectl-cpupool" {
			continue
		}
		if err := link(r.built(p.platform(), p.file()), filepath.Join(r.work, "image", p.arch, p.name)); err != nil {
			return err
		}
	}
	_, err = command(ctx, r.source("deploy", "image"), goEnv(runtime.GOOS, runtime.GOARCH), "go", "run", ".", "-o", out,
		"-ref", r.image+":"+r.version.ociTag(), "-from", filepath.Join(r.work, "image"), "-entrypoint", "cpupoold",
		"-version", r.version.String(), "-revision", r.commit)
	if err != nil {
		return err
	}
	descriptor, err := readIndex(out)
	if err != nil {
		return err
	}
	r.digest = descriptor.Digest.String()
	return writeFile(filepath.Join(r.out, "cpupoold-image_"+r.version.String()+".digest"), []byte(r.reference()+"\n"), 0o644)
}

// reference returns the name of the image in manifests: the tag is for readers, the digest
// decides.
func (r *release) reference() string { return r.image + ":" + r.version.ociTag() + "@" + r.digest }
