package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const reference = "localhost/cpupoold/x:1"

// writeFiles writes files below dir.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, data := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// makeImage packs two programs for two architectures and returns the tar's path.
func makeImage(t *testing.T) string {
	t.Helper()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out.tar")
	writeFiles(t, dir, map[string]string{"amd64/x": "program", "amd64/y": "other", "arm64/x": "PROGRAM", "arm64/y": "OTHER"})
	if err := run([]string{"-o", out, "-ref", reference, "-from", dir, "-entrypoint", "x", "-version", "0.1.0", "-revision", "abc"}); err != nil {
		t.Fatal(err)
	}
	return out
}

type entry struct {
	Name string
	Mode int64
	Data string
}

func entries(t *testing.T, r io.Reader) []entry {
	t.Helper()
	var all []entry
	for r := tar.NewReader(r); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, entry{h.Name, h.Mode, string(data)})
	}
}

// readImage unpacks a tar and returns the image's index and its descriptor.
func readImage(t *testing.T, file string) (v1.ImageIndex, v1.Descriptor) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	files := map[string]string{}
	for _, e := range entries(t, f) {
		files[e.Name] = e.Data
	}
	writeFiles(t, dir, files)
	if !strings.Contains(files["oci-layout"], `"imageLayoutVersion": "1.0.0"`) {
		t.Errorf("oci-layout = %q; want version 1.0.0", files["oci-layout"])
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(outer); err != nil {
		t.Error(err)
	}
	m, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Manifests) != 1 || m.Manifests[0].MediaType != types.OCIImageIndex {
		t.Fatalf("index.json has %+v; want one index", m.Manifests)
	}
	inner, err := outer.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return inner, m.Manifests[0]
}

func TestImage(t *testing.T) {
	index, descriptor := readImage(t, makeImage(t))
	if d := cmp.Diff(map[string]string{"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": "1"}, descriptor.Annotations); d != "" {
		t.Errorf("annotations (-want +got):\n%s", d)
	}
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	wants := map[string][]string{"amd64": {"program", "other"}, "arm64": {"PROGRAM", "OTHER"}}
	if len(m.Manifests) != len(wants) {
		t.Fatalf("%d images; want %d", len(m.Manifests), len(wants))
	}
	for _, d := range m.Manifests {
		architecture := d.Platform.Architecture
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		c, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := []any{d.MediaType, d.Platform.OS, c.OS, c.Architecture, c.Config.Entrypoint, c.Config.User},
			[]any{types.OCIManifestSchema1, "linux", "linux", architecture, []string{"/usr/local/bin/x"}, ""}; !cmp.Equal(got, want) {
			t.Errorf("%s: %v; want %v", architecture, got, want)
		}
		labels := map[string]string{"title": "x", "source": "https://github.com/cpupoold/cpupoold", "licenses": "Apache-2.0", "version": "0.1.0", "revision": "abc"}
		for key, want := range labels {
			if got := c.Config.Labels["org.opencontainers.image."+key]; got != want {
				t.Errorf("%s: label %s is %q; want %q", architecture, key, got, want)
			}
		}
		contents := mutate.Extract(image)
		got := entries(t, contents)
		if err := contents.Close(); err != nil {
			t.Error(err)
		}
		programs := wants[architecture]
		want := []entry{
			{"usr", 0o755, ""},
			{"usr/local", 0o755, ""},
			{"usr/local/bin", 0o755, ""},
			{"usr/local/bin/x", 0o755, programs[0]},
			{"usr/local/bin/y", 0o755, programs[1]},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: files (-want +got):\n%s", architecture, d)
		}
	}
}

func TestImageIsReproducible(t *testing.T) {
	a, err := os.ReadFile(makeImage(t))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(makeImage(t))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("images of the same programs differ; want equal bytes")
	}
}

func TestRunRefuses(t *testing.T) {
	out, dir, none := filepath.Join(t.TempDir(), "out.tar"), t.TempDir(), t.TempDir()
	writeFiles(t, dir, map[string]string{"amd64/x": "program"})
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":            {nil, "required"},
		"argument":           {[]string{"-o", out, "x"}, `unexpected argument "x"`},
		"no tag":             {[]string{"-o", out, "-ref", "x", "-from", dir, "-entrypoint", "x"}, `-ref "x"`},
		"absent directory":   {[]string{"-o", out, "-ref", reference, "-from", "/nonexistent", "-entrypoint", "x"}, "/nonexistent"},
		"no architecture":    {[]string{"-o", out, "-ref", reference, "-from", none, "-entrypoint", "x"}, "no directory for an architecture"},
		"file for directory": {[]string{"-o", out, "-ref", reference, "-from", filepath.Join(dir, "amd64"), "-entrypoint", "x"}, "image for x"},
		"directory for file": {[]string{"-o", out, "-ref", reference, "-from", filepath.Dir(dir), "-entrypoint", "x"}, "image for"},
		"absent entry point": {[]string{"-o", out, "-ref", reference, "-from", dir, "-entrypoint", "y"}, "-entrypoint y"},
		"output's directory": {[]string{"-o", out + "/no/out.tar", "-ref", reference, "-from", dir, "-entrypoint", "x"}, "/no/out.tar"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(c.args); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want an error with %s", err, c.want)
			}
			if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s exists; want no file", out)
			}
		})
	}
}
