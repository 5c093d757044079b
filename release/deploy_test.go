package main

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/blakesmith/ar"
	"github.com/google/go-cmp/cmp"
	"github.com/sassoftware/go-rpmutils"
	"github.com/ulikunitz/xz"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// packageFile holds the contents of a package that both formats have.
type packageFile struct {
	version, arch string
	files         map[string][]byte // by path, with the leading slash
	configuration []string
	scripts       int // after installation, before and after removal
}

// packageFiles returns the paths that both formats have of a program.
func packageFiles(name string) []string {
	paths := []string{"/usr/bin/" + name, "/usr/share/bash-completion/completions/" + name, "/usr/share/fish/vendor_completions.d/" + name + ".fish"}
	if name == "cpupoold" {
		return append(paths, "/etc/cpupoold/config.yaml", "/usr/lib/systemd/system/cpupoold.service", "/usr/share/man/man8/cpupoold-run.8.gz", "/usr/share/man/man5/cpupoold-config.5.gz")
	}
	return append(paths, "/usr/bin/kubectl_complete-cpupool", "/usr/share/man/man1/kubectl-cpupool-simulate.1.gz")
}

func (m *made) testPackages(t *testing.T) {
	for _, p := range all() {
		if p.os != "linux" || p.isInImageOnly() {
			continue
		}
		version := m.version.deb() // rpm takes the same, because it has no "-" either
		rpmArch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[p.arch]
		for name, c := range map[string]struct {
			got    packageFile
			arch   string
			copied []string
		}{
			p.name + "_" + version + "_" + p.arch + ".deb": {m.readDeb(t, p.name+"_"+version+"_"+p.arch+".deb"), p.arch,
				[]string{"/usr/share/doc/" + p.name + "/copyright", "/usr/share/zsh/vendor-completions/_" + p.name}},
			p.name + "-" + version + "-1." + rpmArch + ".rpm": {m.readRPM(t, p.name+"-"+version+"-1."+rpmArch+".rpm"), rpmArch,
				[]string{"/usr/share/licenses/" + p.name + "/LICENSE", "/usr/share/zsh/site-functions/_" + p.name}},
		} {
			want := packageFile{version: version, arch: c.arch}
			if p.name == "cpupoold" {
				want.configuration, want.scripts = []string{"/etc/cpupoold/config.yaml"}, 3
				if unit := string(c.got.files["/usr/lib/systemd/system/cpupoold.service"]); !strings.Contains(unit, "\nExecStart=/usr/bin/cpupoold run ") {
					t.Errorf("%s: the unit does not start /usr/bin/cpupoold:\n%s", name, unit)
				}
			}
			for _, path := range append(packageFiles(p.name), c.copied...) {
				if len(c.got.files[path]) == 0 {
					t.Errorf("%s has no %s", name, path)
				}
			}
			if !bytes.Equal(c.got.files["/usr/bin/"+p.name], m.programs[p]) {
				t.Errorf("%s has another program than the archive", name)
			}
			c.got.files = nil
			if d := cmp.Diff(want, c.got, cmp.AllowUnexported(packageFile{})); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		}
	}
}

func (m *made) readDeb(t *testing.T, name string) packageFile {
	t.Helper()
	p := packageFile{files: map[string][]byte{}}
	for r := ar.NewReader(bytes.NewReader(m.read(t, name))); ; {
		h, err := r.Next()
		if err == io.EOF { //nolint:errorlint // the library returns it as it is
			return p
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		switch strings.TrimSuffix(h.Name, "/") {
		case "control.tar.gz":
			control := unpack(t, gunzip(t, data))
			field := func(key string) string {
				m := regexp.MustCompile(`(?m)^` + key + `: (.*)$`).FindSubmatch(control["control"])
				if m == nil {
					return ""
				}
				return string(m[1])
			}
			p.version, p.arch = field("Version"), field("Architecture")
			if list := strings.Fields(string(control["conffiles"])); len(list) > 0 {
				p.configuration = list
			}
			for _, script := range []string{"postinst", "prerm", "postrm"} {
				if len(control[script]) > 0 {
					p.scripts++
				}
			}
		case "data.tar.xz":
			r, err := xz.NewReader(bytes.NewReader(data))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for path, data := range unpack(t, r) {
				p.files["/"+strings.TrimPrefix(path, "/")] = data
			}
		}
	}
}

func (m *made) readRPM(t *testing.T, name string) packageFile {
	t.Helper()
	r, err := rpmutils.ReadRpm(bytes.NewReader(m.read(t, name)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	nevra, err := r.Header.GetNEVRA()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	p := packageFile{version: nevra.Version, arch: nevra.Arch, files: map[string][]byte{}}
	infos, err := r.Header.GetFiles()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	const configuration = 1<<0 | 1<<4 // RPMFILE_CONFIG and RPMFILE_NOREPLACE of rpm's rpmfiles.h
	for _, f := range infos {
		if f.Flags()&configuration == configuration {
			p.configuration = append(p.configuration, f.Name())
		}
	}
	for _, tag := range []int{rpmutils.POSTIN, rpmutils.PREUN, rpmutils.POSTUN} {
		if text, err := r.Header.GetString(tag); err == nil && text != "" {
			p.scripts++
		}
	}
	payload, err := r.PayloadReaderExtended()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for {
		f, err := payload.Next()
		if err == io.EOF { //nolint:errorlint // the library returns it as it is
			return p
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if p.files[f.Name()], err = io.ReadAll(payload); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// images returns the images that a text names.
func images(text string) []string {
	var found []string
	for _, m := range regexp.MustCompile(`(?m)^\s*(?:- )?image: "?([^"\s]+)"?\s*$`).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func (m *made) testManifests(t *testing.T) {
	texts := map[string]string{}
	for _, name := range []string{"cpupoold.yaml", "cpupool-webhook.yaml", "cpupool-dra.yaml", "cpupoold-restore.yaml"} {
		texts[name] = string(m.read(t, name))
	}
	for name, data := range unpack(t, gunzip(t, m.read(t, "cpupoold-deploy_"+m.version.String()+".tar.gz"))) {
		if strings.Contains(string(data), " image: ") {
			texts["cpupoold-deploy: "+name] = string(data)
		}
	}
	if len(texts) < 6 {
		t.Errorf("%d manifests name an image; want six", len(texts))
	}
	for name, text := range texts {
		if got := images(text); !slices.Equal(got, []string{m.reference()}) {
			t.Errorf("%s has the images %q; want %s", name, got, m.reference())
		}
	}
	if strings.Contains(texts["cpupoold.yaml"], "kind: CPUPoolConfiguration") {
		t.Error("cpupoold.yaml has the configuration, and would replace the installed one")
	}
}

// testChart renders the chart, and compares the archive in the OCI layout with the file.
func (m *made) testChart(t *testing.T) {
	file := m.read(t, "cpupoold-"+m.version.String()+".tgz")
	c, err := loader.LoadArchive(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if c.Metadata.Version != m.version.String() || c.Metadata.AppVersion != m.version.String() {
		t.Errorf("version %s, of the program %s; want %s", c.Metadata.Version, c.Metadata.AppVersion, m.version)
	}
	values, err := chartutil.ToRenderValues(c, map[string]any{"webhook": map[string]any{"enabled": true}}, chartutil.ReleaseOptions{Name: "cpupoold", Namespace: "kube-system"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := engine.Render(c, values)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, o := range objects {
		text.WriteString(o + "\n")
	}
	if got := images(text.String()); !slices.Equal(got, []string{m.reference()}) {
		t.Errorf("the chart has the images %q; want %s", got, m.reference())
	}
	index := unpackLayout(t, m.read(t, "cpupoold-chart_"+m.version.String()+".tar"))
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("index.json: %+v, %v; want one chart", manifest, err)
	}
	if got := manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"]; got != m.version.ociTag() {
		t.Errorf("the chart has the tag %s; want %s", got, m.version.ociTag())
	}
	stored, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := stored.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v; want one", len(layers), err)
	}
	r, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(r); err != nil || !bytes.Equal(data, file) {
		t.Errorf("the layout has another archive than the file, %v", err)
	}
}
