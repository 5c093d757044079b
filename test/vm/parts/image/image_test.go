package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// makeImage writes an image of two files and returns its path.
func makeImage(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bin, conf, out := filepath.Join(dir, "bin"), filepath.Join(dir, "conf"), filepath.Join(dir, "out.tar")
	for file, data := range map[string]string{bin: "program", conf: "key: value\n"} {
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := run([]string{"-o", out, "-ref", "localhost/cpupoold/x:1", "-entrypoint", "/bin/x", "-cmd", "run", "-cmd", "fast",
		"-file", bin + ":/bin/x", "-file", conf + ":/etc/x/conf:640"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func readImage(t *testing.T, file string) v1.Image {
	t.Helper()
	img, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestImageConfig(t *testing.T) {
	out := makeImage(t)
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(out) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"localhost/cpupoold/x:1"}, manifest[0].RepoTags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	c, err := readImage(t, out).ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	got := []any{c.OS, c.Architecture, c.Config.Entrypoint, c.Config.Cmd}
	want := []any{"linux", runtime.GOARCH, []string{"/bin/x"}, []string{"run", "fast"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestImageFiles(t *testing.T) {
	type entry struct {
		Name string
		Mode int64
		Data string
	}
	var got []entry
	rc := mutate.Extract(readImage(t, makeImage(t)))
	defer rc.Close()
	r := tar.NewReader(rc)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, entry{h.Name, h.Mode, string(data)})
	}
	want := []entry{
		{"bin", 0o755, ""},
		{"etc", 0o755, ""},
		{"etc/x", 0o755, ""},
		{"bin/x", 0o755, "program"},
		{"etc/x/conf", 0o640, "key: value\n"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
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
		t.Error("images of the same files differ; want equal bytes")
	}
}

func TestRunRefuses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.tar")
	ok := []string{"-o", out, "-ref", "localhost/x:1", "-entrypoint", "/x"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":        {nil, "required"},
		"no file":        {ok, "required"},
		"argument":       {append(ok, "x"), `unexpected argument "x"`},
		"no tag":         {[]string{"-o", out, "-ref", "x", "-entrypoint", "/x", "-file", "/dev/null:/x"}, `-ref "x"`},
		"absent file":    {append(ok, "-file", "/nonexistent:/x"), "/nonexistent"},
		"no guest":       {append(ok, "-file", "x"), "HOST:GUEST"},
		"guest relative": {append(ok, "-file", "x:y"), `guest path "y"`},
		"guest unclean":  {append(ok, "-file", "x:/a/../y"), `guest path "/a/../y"`},
		"guest root":     {append(ok, "-file", "x:/"), `guest path "/"`},
		"mode decimal":   {append(ok, "-file", "x:/y:789"), `mode "789"`},
		"mode big":       {append(ok, "-file", "x:/y:10000"), `mode "10000"`},
		"mode twice":     {append(ok, "-file", "x:/y:755:755"), "HOST:GUEST"},
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
