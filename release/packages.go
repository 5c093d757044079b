package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

const maintainer = "cpupoold maintainers <maintainers@cpupoold.invalid>"

// packages writes the packages of Debian and of RPM.
func (r *release) packages(context.Context) error {
	for _, p := range all() {
		if p.os != "linux" || p.isInImageOnly() {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.pack(format, p); err != nil {
				return fmt.Errorf("%s of %s for %s: %w", format, p.name, p.arch, err)
			}
		}
	}
	return nil
}

// pack writes the package of a program.
func (r *release) pack(format string, p program) error {
	contents, err := r.contents(format, p)
	if err != nil {
		return err
	}
	info := &nfpm.Info{
		Name: p.name, Arch: p.arch, Platform: "linux",
		Version: r.version.String(), VersionSchema: "semver",
		Maintainer: maintainer,
		Homepage:   "https://github.com/cpupoold/cpupoold",
		Section:    "admin", Priority: "optional",
		MTime: r.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{Contents: contents},
	}
	info.RPM.BuildHost = "localhost" // the name of this machine would change the bytes
	info.Deb.Compression = "xz"
	if format == "rpm" {
		info.License = "Apache-2.0" // Debian has no such field
	}
	switch p.name {
	case "cpupoold":
		info.Description = "CPU pools for Kubernetes nodes\n" +
			"The daemon keeps management, shared and guaranteed CPUs of a node apart. It\n" +
			"places containers and systemd units by cgroup v2, with an unmodified kubelet\n" +
			"and container runtime."
		info.Depends = []string{map[string]string{"deb": "systemd (>= 244)", "rpm": "systemd >= 244"}[format]}
		scripts := func(name string) string { return r.source("release", "packaging", format, name) }
		info.Scripts = nfpm.Scripts{PostInstall: scripts("postinst"), PreRemove: scripts("prerm"), PostRemove: scripts("postrm")}
	default:
		info.Description = "kubectl plugin for CPU pools\n" +
			"Shows nodes and pods by CPU pool, simulates the placement of pods on a\n" +
			"machine, and finds manifests that keep pods from their pools. The nodes run\n" +
			"cpupoold."
	}
	info = nfpm.WithDefaults(info)
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := packager.Package(info, &b); err != nil {
		return err
	}
	return writeFile(filepath.Join(r.out, packager.ConventionalFileName(info)), b.Bytes(), 0o644)
}

// contents writes the files that only packages have, and returns the files of a package.
func (r *release) contents(format string, p program) (files.Contents, error) {
	zsh := map[string]string{"deb": "vendor-completions", "rpm": "site-functions"}[format]
	from := map[string]string{ // by the path in the package
		"/usr/bin/" + p.name: r.built(p.platform(), p.file()),
		"/usr/share/bash-completion/completions/" + p.name:         r.built("completions", "bash", p.name),
		"/usr/share/zsh/" + zsh + "/_" + p.name:                    r.built("completions", "zsh", "_"+p.name),
		"/usr/share/fish/vendor_completions.d/" + p.name + ".fish": r.built("completions", "fish", p.name+".fish"),
	}
	made := map[string][]byte{}
	pages, err := r.manPages(p.name)
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		to := "/usr/share/man/man" + filepath.Ext(page)[1:] + "/" + filepath.Base(page) + ".gz"
		if made[to], err = compress(text); err != nil {
			return nil, err
		}
	}
	if p.name == "cpupoold" {
		if made["/usr/lib/systemd/system/cpupoold.service"], err = r.unit(); err != nil {
			return nil, err
		}
		from["/etc/cpupoold/config.yaml"] = r.source("systemd", "config.yaml")
	} else {
		// kubectl completes the arguments of a plugin with this program.
		made["/usr/bin/kubectl_complete-cpupool"] = []byte("#!/bin/sh\nexec kubectl-cpupool __complete \"$@\"\n")
	}
	if err := r.addDocuments(format, p, from, made); err != nil {
		return nil, err
	}
	for to, data := range made {
		file := r.built("packages", format, p.platform(), p.name, to)
		if err := writeFile(file, data, 0o644); err != nil {
			return nil, err
		}
		from[to] = file
	}
	var all files.Contents
	for _, to := range slices.Sorted(maps.Keys(from)) {
		c := &files.Content{Source: from[to], Destination: to, FileInfo: &files.ContentFileInfo{Mode: 0o644}}
		switch {
		case strings.HasPrefix(to, "/usr/bin/"):
			c.FileInfo.Mode = 0o755
		case strings.HasPrefix(to, "/etc/"):
			c.Type = files.TypeConfigNoReplace
		case strings.HasPrefix(to, "/usr/share/licenses/"):
			c.Type = files.TypeRPMLicense
		}
		all = append(all, c)
	}
	return all, nil
}

// addDocuments adds licences and, for Debian, the changelog.
func (r *release) addDocuments(format string, p program, from map[string]string, made map[string][]byte) error {
	if format == "rpm" {
		from["/usr/share/licenses/"+p.name+"/LICENSE"] = r.source("LICENSE")
		from["/usr/share/licenses/"+p.name+"/"+thirdParty] = r.built(thirdParty)
		return nil
	}
	text, err := os.ReadFile(r.built(thirdParty))
	if err != nil {
		return err
	}
	const head = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: cpupoold
Source: https://github.com/cpupoold/cpupoold

Files: *
Copyright: 2026 The cpupoold authors
License: Apache-2.0
 The full text of the Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0.
 .
 The modules that the programs link have licences of their own: `
	made["/usr/share/doc/"+p.name+"/copyright"] = []byte(head + thirdParty + ".gz.\n")
	if made["/usr/share/doc/"+p.name+"/"+thirdParty+".gz"], err = compress(text); err != nil {
		return err
	}
	// Static programs are a decision of the project: one program for all distributions.
	made["/usr/share/lintian/overrides/"+p.name] = []byte(p.name + ": statically-linked-binary [usr/bin/" + p.name + "]\n")
	changes := fmt.Sprintf("%s (%s) stable; urgency=medium\n\n  * Release %s: https://github.com/cpupoold/cpupoold/blob/%s/CHANGELOG.md\n\n -- %s  %s\n",
		p.name, r.version.deb(), r.version, r.version.tag(), maintainer, r.time.Format(time.RFC1123Z))
	made["/usr/share/doc/"+p.name+"/changelog.gz"], err = compress([]byte(changes))
	return err
}

// unit returns the systemd unit for a program in /usr/bin.
func (r *release) unit() ([]byte, error) {
	unit, err := os.ReadFile(r.source("systemd", "cpupoold.service"))
	if err != nil {
		return nil, err
	}
	const from, to = "ExecStart=/usr/local/bin/cpupoold ", "ExecStart=/usr/bin/cpupoold "
	if bytes.Count(unit, []byte(from)) != 1 {
		return nil, fmt.Errorf("systemd/cpupoold.service has no line %q", from)
	}
	return bytes.Replace(unit, []byte(from), []byte(to), 1), nil
}

// compress returns text as gzip -9n writes it.
func compress(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}
