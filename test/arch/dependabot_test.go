package arch_test

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// chosenVersions reports whether the modules below a directory have the versions of software that the tests choose, as
// the support matrix states them. An update of them is a decision.
func chosenVersions(dir string) bool {
	return strings.HasPrefix(dir, "test/vm/parts/") && dir != "test/vm/parts/image" || dir == "bench/kubelet" || dir == "test/scheduler"
}

// TestDependabot checks that dependabot updates each module, except those with chosen versions.
func TestDependabot(t *testing.T) {
	data, err := os.ReadFile("../../.github/dependabot.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Updates []struct {
			Ecosystem   string   `yaml:"package-ecosystem"`
			Directories []string `yaml:"directories"`
		} `yaml:"updates"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, u := range config.Updates {
		if u.Ecosystem == "gomod" {
			got = append(got, u.Directories...)
		}
	}
	err = fs.WalkDir(os.DirFS("../.."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.Name() == "go.mod" && !chosenVersions(path.Dir(name)):
			want = append(want, path.Join("/", path.Dir(name)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("directories of .github/dependabot.yml (-want +got):\n%s", diff)
	}
}
