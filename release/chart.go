package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/registry"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"sigs.k8s.io/yaml"
)

// chart writes the Helm chart as an archive, and as an OCI layout, in the form in which helm
// push stores it in a registry.
func (r *release) chart(ctx context.Context) error {
	c, err := loader.LoadDir(r.source("deploy", "chart", "cpupoold"))
	if err != nil {
		return err
	}
	c.Metadata.Version, c.Metadata.AppVersion = r.version.String(), r.version.String()
	if err := c.Validate(); err != nil {
		return err
	}
	data, err := r.chartArchive(c)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(r.out, c.Name()+"-"+r.version.String()+".tgz"), data, 0o644); err != nil {
		return err
	}
	layout, err := r.chartLayout(ctx, c.Metadata, data)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(r.out, "cpupoold-chart_"+r.version.String()+".tar"), layout, 0o644)
}

// chartArchive does what helm package does, with the time of the release: helm takes the
// current time.
func (r *release) chartArchive(c *chart.Chart) ([]byte, error) {
	var entries []entry
	for _, f := range c.Raw { // in the order of the file system's walk; links are resolved
		data := f.Data
		if f.Name == "Chart.yaml" {
			var err error
			if data, err = yaml.Marshal(c.Metadata); err != nil {
				return nil, err
			}
		}
		entries = append(entries, entry{c.Name() + "/" + f.Name, 0o644, data})
	}
	return tarGz(entries, r.time)
}

// chartLayout returns a tar of an OCI layout with the chart.
func (r *release) chartLayout(ctx context.Context, m *chart.Metadata, archive []byte) ([]byte, error) {
	dir := filepath.Join(r.work, "chart")
	store, err := oci.NewWithContext(ctx, dir)
	if err != nil {
		return nil, err
	}
	metadata, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	config, err := oras.PushBytes(ctx, store, registry.ConfigMediaType, metadata)
	if err != nil {
		return nil, fmt.Errorf("store metadata: %w", err)
	}
	layer, err := oras.PushBytes(ctx, store, registry.ChartLayerMediaType, archive)
	if err != nil {
		return nil, fmt.Errorf("store archive: %w", err)
	}
	manifest, err := oras.PackManifest(ctx, store, oras.PackManifestVersion1_1, "", oras.PackManifestOptions{
		ConfigDescriptor: &config,
		Layers:           []ocispec.Descriptor{layer},
		ManifestAnnotations: map[string]string{
			ocispec.AnnotationTitle: m.Name, ocispec.AnnotationVersion: m.Version, ocispec.AnnotationDescription: m.Description,
			ocispec.AnnotationRevision: r.commit, ocispec.AnnotationCreated: r.time.Format(time.RFC3339),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("store manifest: %w", err)
	}
	if err := store.Tag(ctx, manifest, r.version.ociTag()); err != nil {
		return nil, fmt.Errorf("tag chart: %w", err)
	}
	files := map[string]string{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = path
		return err
	})
	if err != nil {
		return nil, err
	}
	entries, err := readEntries(files, func(string) int64 { return 0o644 })
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = packTar(&b, entries, r.time)
	return b.Bytes(), err
}
