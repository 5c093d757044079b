// Package image builds what a VM boots from, once, and keeps it in a cache directory under names that change with the inputs.
package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Kernel is what QEMU loads by itself.
type Kernel struct {
	Image  string // path of vmlinuz
	Initrd string // path of the initrd that finds the root disk
	Key    string // changes with the inputs
}

// Disk is a root disk and the kernel that was installed with it.
type Disk struct {
	Kernel

	Path    string // raw image, never to be written: put an overlay on it
	SSHKey  string // path of the private key of root
	HostKey string // path of the public key of its SSH server
	Key     string // changes with the inputs
}

// Store makes images on demand.
type Store struct {
	Source string // directory test/vm of this repository
	Cache  string // directory; may be deleted at any time that no VM runs
}

// Prepare installs what the host lacks to build images and to boot them.
func (s Store) Prepare(ctx context.Context) error {
	return script(ctx, filepath.Join(s.Source, "image", "prepare.sh"))
}

// Kernel returns the kernel, after building the root file system it comes from if there is none for the current inputs.
func (s Store) Kernel(ctx context.Context) (Kernel, error) {
	dir, err := s.rootfs(ctx)
	if err != nil {
		return Kernel{}, err
	}
	return Kernel{Image: filepath.Join(dir, "vmlinuz"), Initrd: filepath.Join(dir, "initrd"), Key: filepath.Base(dir)}, nil
}

// Base returns the disk of a plain systemd machine, after building it if there is none for the current inputs.
func (s Store) Base(ctx context.Context) (Disk, error) {
	return s.disk(ctx, "base", "")
}

// Node returns the disk of a Kubernetes node: Base with the software of parts/build.sh on top of it, which it runs first. The first
// time that takes minutes.
func (s Store) Node(ctx context.Context) (Disk, error) {
	if err := script(ctx, filepath.Join(s.Source, "parts", "build.sh")); err != nil {
		return Disk{}, err
	}
	return s.disk(ctx, "node", filepath.Join(s.Cache, "parts", "rootfs"))
}

func (s Store) rootfs(ctx context.Context) (string, error) {
	scripts := filepath.Join(s.Source, "image")
	var k key
	k.file(filepath.Join(scripts, "rootfs.sh"))
	return s.build(ctx, "rootfs", &k, func(dir string) error {
		return script(ctx, filepath.Join(scripts, "rootfs.sh"), dir)
	})
}

func (s Store) disk(ctx context.Context, name, parts string) (Disk, error) {
	kernel, err := s.Kernel(ctx)
	if err != nil {
		return Disk{}, err
	}
	scripts := filepath.Join(s.Source, "image")
	var k key
	k.text(kernel.Key)
	k.file(filepath.Join(scripts, "image.sh"))
	k.tree(filepath.Join(scripts, "rootfs"))
	if parts != "" {
		k.file(parts + ".key") // its contents would take a second to read
	}
	dir, err := s.build(ctx, name, &k, func(dir string) error {
		return script(ctx, filepath.Join(scripts, "image.sh"), filepath.Dir(kernel.Image), dir, parts)
	})
	if err != nil {
		return Disk{}, err
	}
	return Disk{
		Kernel:  kernel,
		Path:    filepath.Join(dir, "disk.img"),
		SSHKey:  filepath.Join(dir, "id_ed25519"),
		HostKey: filepath.Join(dir, "host_key.pub"),
		Key:     filepath.Base(dir),
	}, nil
}

// script runs one of the shell scripts; what it says goes to standard error, since it can take a minute.
func script(ctx context.Context, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}
