package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Path is a cgroup's place below the cgroup2 mount, without a leading slash:
// "kubepods.slice/kubepods-pod1.slice/cri-containerd-x.scope". The root is "".
type Path string

// Parent is the cgroup that contains p; the root is its own parent.
func (p Path) Parent() Path {
	i := strings.LastIndexByte(string(p), '/')
	if i < 0 {
		return ""
	}
	return p[:i]
}

// Base is the last component of p.
func (p Path) Base() string {
	return string(p[strings.LastIndexByte(string(p), '/')+1:])
}

// Join is the descendant of p with the given relative name.
func (p Path) Join(name string) Path {
	return Path(path.Join(string(p), name))
}

// Scope is the scope whose inner cgroup p is (see State.Inner), else p itself: the
// cgroup that a target, and so a Write to either of the two, is about.
func (p Path) Scope() Path {
	if scope := p.Parent(); p.Base() == innerName && strings.HasSuffix(string(scope), ".scope") {
		return scope
	}
	return p
}

// Inner is the cgroup that crun creates below a scope (see State.Inner); ok is false
// if p is no scope.
func (p Path) Inner() (inner Path, ok bool) {
	if !strings.HasSuffix(string(p), ".scope") {
		return "", false
	}
	return p + "/" + innerName, true
}

// Unit is the systemd unit whose cgroup p is; ok is false when p is not named
// like a unit that owns a cgroup (systemd.unit(5)). systemd puts an underscore
// before names that could be taken for files, as cpu.service (cg_escape).
func (p Path) Unit() (name string, ok bool) {
	base := strings.TrimPrefix(p.Base(), "_")
	for _, suffix := range []string{".slice", ".scope", ".service"} {
		if len(base) > len(suffix) && strings.HasSuffix(base, suffix) {
			return base, true
		}
	}
	return "", false
}

// Limits of Linux for the length of a path and of one component of it.
const (
	maxPath = 4095
	maxName = 255
)

var errPath = errors.New("not a path of a cgroup")

// ParsePath checks a path that came from outside: relative, clean, without
// "..", and short enough for the kernel. A leading slash is taken off.
func ParsePath(s string) (Path, error) {
	p := Path(strings.TrimPrefix(s, "/"))
	if err := p.validate(); err != nil {
		return "", fmt.Errorf("parse %s: %w", abbreviate(s), err)
	}
	return p, nil
}

func (p Path) validate() error {
	if p == "" {
		return nil
	}
	if !fs.ValidPath(string(p)) || p == "." || strings.ContainsAny(string(p), "\x00\n") {
		return errPath
	}
	if len(p) > maxPath {
		return fmt.Errorf("%w: %d bytes, at most %d", errPath, len(p), maxPath)
	}
	for component := range strings.SplitSeq(string(p), "/") {
		if len(component) > maxName {
			return fmt.Errorf("%w: component of %d bytes, at most %d", errPath, len(component), maxName)
		}
	}
	return nil
}

// name is p as package io/fs wants it.
func (p Path) name() string {
	if p == "" {
		return "."
	}
	return string(p)
}

func (p Path) file(file string) (string, error) {
	if err := p.validate(); err != nil {
		return path.Join(string(p), file), err
	}
	if file == "" || file == "." || file == ".." || strings.ContainsAny(file, "/\x00") {
		return path.Join(string(p), file), fmt.Errorf("%q is not the name of a control file", file)
	}
	if p == "" {
		return file, nil
	}
	return string(p) + "/" + file, nil // both are clean: path.Join would take a tenth of the daemon's start
}

// abbreviate quotes s for a message, without the bulk of a hostile value.
func abbreviate(s string) string {
	const limit = 120
	if len(s) > limit {
		return fmt.Sprintf("%q... (%d bytes)", s[:limit], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// shortPath is the maximum length of an unshortened path in a message. A container's path has about 250 bytes, and
// the container chooses the names below.
const shortPath = 400

// shorten returns a path for a message, without the middle of a long one.
func shorten(s string) string {
	if len(s) <= shortPath {
		return s
	}
	const end = 80
	return fmt.Sprintf("%s...%s (%d bytes)", strings.ToValidUTF8(s[:shortPath-end], ""), strings.ToValidUTF8(s[len(s)-end:], ""), len(s))
}
