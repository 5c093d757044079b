package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"sigs.k8s.io/yaml"
)

var dist = flag.String("dist", "", "`directory` of the release files to check")

// made is a directory of release files, with the version, commit and digest of their image.
type made struct {
	release
	programs map[program][]byte // executables, from archives and from the image
}

// TestFiles compares all files of a release with each other: versions, commit, digests and
// programs. make release runs it.
func TestFiles(t *testing.T) {
	if *dist == "" {
		t.Skip("no release files; run make release, which runs this test with -dist")
	}
	m := &made{programs: map[program][]byte{}}
	m.out = *dist
	m.readImage(t)
	m.readArchives(t)
	t.Run("checksums", m.testChecksums)
	t.Run("programs", m.testPrograms)
	t.Run("packages", m.testPackages)
	t.Run("chart", m.testChart)
	t.Run("manifests", m.testManifests)
	t.Run("krew", m.testKrew)
	t.Run("materials", m.testMaterials)
}

func (m *made) read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(m.out, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// unpack returns the regular files of a tar by their names.
func unpack(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(r); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if files[strings.TrimPrefix(h.Name, "./")], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func gunzip(t *testing.T, data []byte) io.Reader {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// unpackLayout writes the files of a tar into a directory, and returns its OCI index.
func unpackLayout(t *testing.T, data []byte) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	for name, data := range unpack(t, bytes.NewReader(data)) {
		write(t, dir, name, string(data))
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// readImage takes version, commit and digest of the release from the image.
func (m *made) readImage(t *testing.T) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(m.out, "cpupoold-image_*.tar"))
	if err != nil || len(found) != 1 {
		t.Fatalf("images: %q, %v; want one", found, err)
	}
	data := m.read(t, filepath.Base(found[0]))
	outer := unpackLayout(t, data)
	if err := validate.Index(outer); err != nil {
		t.Error(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("index.json: %+v, %v; want one index", manifest, err)
	}
	m.digest = manifest.Manifests[0].Digest.String()
	inner, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	platforms, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range platforms.Manifests {
		image, err := inner.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		const label = "org.opencontainers.image."
		if m.version, err = parseVersion(config.Config.Labels[label+"version"]); err != nil {
			t.Fatal(err)
		}
		if got := config.Config.Labels[label+"revision"]; m.commit != "" && got != m.commit {
			t.Errorf("images are of the commits %s and %s", m.commit, got)
		}
		m.commit = config.Config.Labels[label+"revision"]
		layer := mutate.Extract(image)
		for name, data := range unpack(t, layer) {
			m.programs[program{filepath.Base(name), "linux", d.Platform.Architecture}] = data
		}
		if err := layer.Close(); err != nil {
			t.Error(err)
		}
	}
	name, ok := manifest.Manifests[0].Annotations["io.containerd.image.name"]
	if m.image, _ = strings.CutSuffix(name, ":"+m.version.ociTag()); !ok || m.image == name {
		t.Errorf("the image has the name %q; want the tag %s", name, m.version.ociTag())
	}
	if want := "cpupoold-image_" + m.version.String() + ".tar"; filepath.Base(found[0]) != want {
		t.Errorf("the image is %s; want %s", found[0], want)
	}
	if got, want := string(m.read(t, "cpupoold-image_"+m.version.String()+".digest")), m.reference()+"\n"; got != want {
		t.Errorf("the file with the digest has %q; want %q", got, want)
	}
}

// readArchives takes the programs from the archives, and compares them with the programs of the image.
func (m *made) readArchives(t *testing.T) {
	t.Helper()
	for _, p := range all() {
		if p.isInImageOnly() {
			continue
		}
		data := m.read(t, m.archiveOf(p))
		var files map[string][]byte
		if p.os == "windows" {
			files = unzip(t, data)
		} else {
			files = unpack(t, gunzip(t, data))
		}
		for _, name := range []string{p.file(), "LICENSE", thirdParty, "completions/bash/" + p.name, "completions/powershell/" + p.name + ".ps1"} {
			if len(files[name]) == 0 {
				t.Errorf("%s has no %s", m.archiveOf(p), name)
			}
		}
		if inImage := m.programs[p]; inImage != nil && !bytes.Equal(inImage, files[p.file()]) {
			t.Errorf("%s for %s: archive and image differ", p.name, p.platform())
		}
		m.programs[p] = files[p.file()]
	}
}

func unzip(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range r.File {
		open, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(open); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func (m *made) testChecksums(t *testing.T) {
	sums := map[string]string{}
	for line := range strings.Lines(string(m.read(t, "checksums.txt"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	files, err := os.ReadDir(m.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		want := fmt.Sprintf("%x", sha256.Sum256(m.read(t, f.Name())))
		if f.Name() != "checksums.txt" && sums[f.Name()] != want {
			t.Errorf("%s: checksum %q; want %s", f.Name(), sums[f.Name()], want)
		}
	}
	if len(sums) != len(files)-1 {
		t.Errorf("%d checksums of %d files", len(sums), len(files)-1)
	}
}

// testPrograms reads the build information of all programs, and runs those for this machine.
func (m *made) testPrograms(t *testing.T) {
	for _, p := range all() {
		info, err := buildinfo.Read(bytes.NewReader(m.programs[p]))
		if err != nil {
			t.Errorf("%s for %s: %v", p.name, p.platform(), err)
			continue
		}
		if m.version.Metadata() == "" && info.Main.Version != m.version.tag() { // Go ignores tags with metadata
			t.Errorf("%s for %s: Go has version %s; want %s", p.name, p.platform(), info.Main.Version, m.version.tag())
		}
		got := map[string]string{}
		for _, s := range info.Settings {
			got[s.Key] = s.Value
		}
		for key, want := range map[string]string{"GOOS": p.os, "GOARCH": p.arch, "CGO_ENABLED": "0", "-trimpath": "true", "vcs.revision": m.commit, "vcs.modified": "false"} {
			if got[key] != want {
				t.Errorf("%s for %s: %s is %q; want %q", p.name, p.platform(), key, got[key], want)
			}
		}
		if p.os == runtime.GOOS && p.arch == runtime.GOARCH {
			m.testVersion(t, p, info.GoVersion)
		}
	}
}

// testVersion compares the output of --version.
func (m *made) testVersion(t *testing.T, p program, golang string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), p.name)
	if err := writeFile(file, m.programs[p], 0o755); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s %s, commit %s, %s\n", p.name, m.version.tag(), m.commit, golang)
	if got, err := exec.CommandContext(t.Context(), file, "--version").Output(); err != nil || string(got) != want {
		t.Errorf("%s --version prints %q, %v; want %q", p.name, got, err, want)
	}
}

func (m *made) testKrew(t *testing.T) {
	var krew plugin
	if err := yaml.UnmarshalStrict(m.read(t, "cpupool.krew.yaml"), &krew); err != nil {
		t.Fatal(err)
	}
	if krew.Spec.Version != m.version.tag() {
		t.Errorf("version %s; want %s", krew.Spec.Version, m.version.tag())
	}
	var want []program
	for _, p := range all() {
		if p.name == "kubectl-cpupool" {
			want = append(want, p)
		}
	}
	if len(krew.Spec.Platforms) != len(want) {
		t.Fatalf("%d platforms; want %d", len(krew.Spec.Platforms), len(want))
	}
	for i, got := range krew.Spec.Platforms {
		p, archive := want[i], m.archiveOf(want[i])
		if sum := fmt.Sprintf("%x", sha256.Sum256(m.read(t, archive))); got.SHA256 != sum {
			t.Errorf("%s: checksum %s; want %s", archive, got.SHA256, sum)
		}
		if !strings.HasSuffix(got.URI, "/"+m.version.tag()+"/"+archive) || got.Bin != p.file() ||
			got.Selector.MatchLabels["os"] != p.os || got.Selector.MatchLabels["arch"] != p.arch {
			t.Errorf("platform %d is %+v; want %v of %s", i, got, p, archive)
		}
	}
}

// testMaterials compares each bill of materials with the build information of its program.
func (m *made) testMaterials(t *testing.T) {
	for _, p := range all() {
		name := strings.Join([]string{p.name, m.version.String(), p.os, p.arch}, "_") + ".cdx.json"
		var bom cdx.BOM
		if err := cdx.NewBOMDecoder(bytes.NewReader(m.read(t, name)), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if main := bom.Metadata.Component; main.Name != p.name || main.Version != m.version.String() || (*main.Hashes)[0].Value != fmt.Sprintf("%x", sha256.Sum256(m.programs[p])) {
			t.Errorf("%s is about %s %s with the hash %+v", name, main.Name, main.Version, *main.Hashes)
		}
		info, err := buildinfo.Read(bytes.NewReader(m.programs[p]))
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"pkg:golang/std@" + info.GoVersion}
		for _, d := range info.Deps {
			want = append(want, "pkg:golang/"+d.Path+"@"+d.Version)
		}
		var got []string
		for _, c := range *bom.Components {
			got = append(got, c.PackageURL)
			if c.Licenses == nil || (*c.Licenses)[0].Expression == "" {
				t.Errorf("%s: %s has no licence", name, c.PackageURL)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has the modules %q; want %q", name, got, want)
		}
	}
}
