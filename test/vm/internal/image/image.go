// Package image builds kernels and disks of VMs, once, and keeps them in a cache directory under names that change with the
// inputs.
package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Kernel is a kernel that QEMU loads directly.
type Kernel struct {
	Image  string // path of vmlinuz
	Initrd string // path of the initrd that finds the root disk
	Key    string // Changes with the inputs.
}

// Disk is a root disk and the kernel that was installed with it.
type Disk struct {
	Kernel

	Name    string // The Spec's name.
	Path    string // Raw image, never to be written: put an overlay on it.
	SSHKey  string // Path of the private key of root.
	HostKey string // Path of the public key of its SSH server.
	Key     string // changes with the inputs
}

// Store makes images on demand.
type Store struct {
	Source string // directory test/vm of this repository
	Cache  string // directory; may be deleted at any time that no VM runs
}

// Prepare installs the host's missing packages for building and booting images.
func (s Store) Prepare(ctx context.Context) error {
	return script(ctx, filepath.Join(s.Source, "image", "prepare.sh"))
}

// Spec describes the contents of a disk.
type Spec struct {
	Name     string   // name of the cache directories, which depends on the following
	Suite    string   // of Debian: it has the kernel and systemd
	Packages []string // additional packages of Debian
	Trees    []string // names that parts/build.sh knows; it runs first, and the first time that takes minutes
	Layers   []string // directories in parts/layers, each copied over the earlier ones
}

// Kernel returns the kernel of a suite of Debian. The flavour "" is the kernel of its disks, and Kernel first builds the root file
// system if the cache lacks the current inputs. A kernel of another flavour has no initrd.
func (s Store) Kernel(ctx context.Context, suite, flavour string) (Kernel, error) {
	if flavour == "" {
		return s.rootfs(ctx, suite, nil)
	}
	program := filepath.Join(s.Source, "image", "kernel.sh")
	var k key
	k.file(program)
	dir, err := s.build(ctx, "kernel-"+suite+"-"+flavour, &k, func(dir string) error { return script(ctx, program, dir, suite, flavour) })
	if err != nil {
		return Kernel{}, err
	}
	return Kernel{Image: filepath.Join(dir, "vmlinuz"), Key: filepath.Base(dir)}, nil
}

func (s Store) rootfs(ctx context.Context, suite string, packages []string) (Kernel, error) {
	program := filepath.Join(s.Source, "image", "rootfs.sh")
	args := append([]string{suite}, packages...)
	var k key
	k.file(program)
	k.text(strings.Join(args, " "))
	dir, err := s.build(ctx, strings.Join(append([]string{"rootfs"}, args...), "-"), &k, func(dir string) error {
		return script(ctx, program, append([]string{dir}, args...)...)
	})
	if err != nil {
		return Kernel{}, err
	}
	return Kernel{Image: filepath.Join(dir, "vmlinuz"), Initrd: filepath.Join(dir, "initrd"), Key: filepath.Base(dir)}, nil
}

// Disk returns a disk. It first builds the disk if the cache lacks the current inputs.
func (s Store) Disk(ctx context.Context, spec Spec) (Disk, error) {
	scripts, parts := filepath.Join(s.Source, "image"), filepath.Join(s.Source, "parts")
	var kernel Kernel
	both, building := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		kernel, err = s.rootfs(building, spec.Suite, spec.Packages)
		return err
	})
	both.Go(func() error {
		if len(spec.Trees) == 0 {
			return nil
		}
		return script(building, filepath.Join(parts, "build.sh"), spec.Trees...)
	})
	if err := both.Wait(); err != nil {
		return Disk{}, err
	}
	var k key
	k.text(kernel.Key)
	k.file(filepath.Join(scripts, "image.sh"))
	k.tree(filepath.Join(scripts, "rootfs"))
	var tops []string
	for _, name := range spec.Trees {
		tree := filepath.Join(s.Cache, "parts", "tree-"+name)
		k.file(tree + ".key") // its contents would take a second to read
		tops = append(tops, tree)
	}
	for _, name := range spec.Layers {
		layer := filepath.Join(parts, "layers", name)
		k.tree(layer)
		tops = append(tops, layer)
	}
	dir, err := s.build(ctx, spec.Name, &k, func(dir string) error {
		return script(ctx, filepath.Join(scripts, "image.sh"), append([]string{filepath.Dir(kernel.Image), dir}, tops...)...)
	})
	if err != nil {
		return Disk{}, err
	}
	return Disk{
		Kernel:  kernel,
		Name:    spec.Name,
		Path:    filepath.Join(dir, "disk.img"),
		SSHKey:  filepath.Join(dir, "id_ed25519"),
		HostKey: filepath.Join(dir, "host_key.pub"),
		Key:     filepath.Base(dir),
	}, nil
}

// script runs one of the shell scripts. Its output goes to standard error, since it can take a minute.
func script(ctx context.Context, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}
