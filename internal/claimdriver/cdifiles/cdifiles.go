// Package cdifiles writes and removes the files of the Container Device Interface (CDI) that give the
// containers of a ResourceClaim their environment. A runtime reads the files when it creates a container.
package cdifiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"time"

	cdispec "tags.cncf.io/container-device-interface/specs-go"

	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

const (
	claimPrefix    = dra.Driver + "_claim_"
	metadataPrefix = dra.Driver + "_metadata_" // files of package kubeletplugin, with _REQUEST after the UID
	suffix         = ".json"
	// cpusVariable has the CPUs, too. The daemon sets it over NRI for all containers, with the CPUs of
	// all claims of the container.
	cpusVariable = "CPUPOOL_CPUS"
	maxFile      = 64 << 10 // bytes
)

// uidSyntax is a subset of the names that CDI accepts.
var uidSyntax = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,62}[A-Za-z0-9])?$`)

// Dir is the directory in which the runtime looks for CDI files. It need not exist.
type Dir string

// Device returns the name of the CDI device of a claim.
func Device(uid string) string { return cri.ClaimDevice + "=" + uid }

// Write writes the file of a claim. A file with the same content gets the present time only.
func (d Dir) Write(uid string, cpus cpuset.Set) error {
	if !uidSyntax.MatchString(uid) {
		return fmt.Errorf("write CDI file: %.100q is not a UID", uid)
	}
	content, err := encode(uid, cpus)
	if err != nil {
		return fmt.Errorf("write CDI file of claim %s: %w", uid, err)
	}
	if err := os.MkdirAll(string(d), 0o755); err != nil {
		return fmt.Errorf("write CDI file of claim %s: %w", uid, err)
	}
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return fmt.Errorf("write CDI file of claim %s: %w", uid, err)
	}
	defer root.Close()
	name := claimPrefix + uid + suffix
	if has(root, name, content) {
		now := time.Now() // another instance of the driver must not take the file for an old one
		err = root.Chtimes(name, now, now)
	} else {
		err = replace(root, name, content)
	}
	if err != nil {
		return fmt.Errorf("write CDI file of claim %s: %w", uid, err)
	}
	return nil
}

// Has reports whether the file of a claim exists, with these CPUs.
func (d Dir) Has(uid string, cpus cpuset.Set) bool {
	content, err := encode(uid, cpus)
	if err != nil || !uidSyntax.MatchString(uid) {
		return false
	}
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return false
	}
	defer root.Close()
	return has(root, claimPrefix+uid+suffix, content)
}

func encode(uid string, cpus cpuset.Set) ([]byte, error) {
	spec := &cdispec.Spec{Kind: cri.ClaimDevice, Devices: []cdispec.Device{{
		Name: uid,
		ContainerEdits: cdispec.ContainerEdits{Env: []string{
			cri.ClaimVariable + uid + "=" + cpus.String(),
			cpusVariable + "=" + cpus.String(),
		}},
	}}}
	version, err := cdispec.MinimumRequiredVersion(spec)
	if err != nil {
		return nil, err
	}
	spec.Version = version
	return json.MarshalIndent(spec, "", "  ")
}

func has(root *os.Root, name string, content []byte) bool {
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := root.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	found, err := io.ReadAll(io.LimitReader(f, maxFile))
	return err == nil && bytes.Equal(found, content)
}

// replace writes a new file and renames it, so that the runtime never reads a part. The runtime ignores
// the new file until then, because its name does not end in .json.
func replace(root *os.Root, name string, content []byte) (err error) {
	temporary := "." + name + ".new"
	if err := root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		err = errors.Join(err, root.Remove(temporary))
	}
	return err
}

// Remove removes the files of a claim. It succeeds if none exists.
func (d Dir) Remove(uid string) error {
	return d.remove(func(of string, _ fs.FileInfo) bool { return of == uid })
}

// RemoveOthers removes the files of the claims that are not known. It keeps files that are younger than
// age, because their claim may be younger than the caller's knowledge.
func (d Dir) RemoveOthers(known map[string]bool, age time.Duration) error {
	return d.remove(func(uid string, info fs.FileInfo) bool { return !known[uid] && time.Since(info.ModTime()) >= age })
}

// remove removes the files that selected chooses. It does not follow links.
func (d Dir) remove(selected func(uid string, info fs.FileInfo) bool) error {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove CDI files: %w", err)
	}
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return fmt.Errorf("remove CDI files: %w", err)
	}
	defer root.Close()
	var errs []error
	for _, e := range entries {
		uid, ours := owner(e.Name())
		if !ours {
			continue
		}
		info, err := root.Lstat(e.Name())
		if err != nil || info.IsDir() || !selected(uid, info) {
			continue
		}
		if err := root.Remove(e.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove CDI file of claim %s: %w", uid, err))
		}
	}
	return errors.Join(errs...)
}

// owner returns the UID of the claim to which a file belongs, and whether it is a file of the driver.
func owner(name string) (uid string, ours bool) {
	if rest, is := strings.CutPrefix(name, "."); is {
		if name, is = strings.CutSuffix(rest, ".new"); !is {
			return "", false
		}
	}
	name, is := strings.CutSuffix(name, suffix)
	if !is {
		return "", false
	}
	if rest, is := strings.CutPrefix(name, claimPrefix); is {
		return rest, uidSyntax.MatchString(rest)
	}
	if rest, is := strings.CutPrefix(name, metadataPrefix); is {
		uid, _, is := strings.Cut(rest, "_")
		return uid, is && uidSyntax.MatchString(uid)
	}
	return "", false
}
