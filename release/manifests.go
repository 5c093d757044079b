package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// treeImage is the image of the manifests in the repository.
const treeImage = "localhost/cpupoold/cpupoold"

// manifests puts the image of the release into deploy/ of the clone, and writes it as an archive
// and as single files for kubectl apply.
func (r *release) manifests(context.Context) error {
	if err := r.setImage(); err != nil {
		return err
	}
	for name, dir := range map[string]string{"cpupoold.yaml": "", "cpupool-webhook.yaml": "webhook", "cpupool-dra.yaml": "dra", "cpupoold-restore.yaml": "uninstall"} {
		objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), r.source("deploy", dir))
		if err != nil {
			return err
		}
		if dir == "" {
			if err := removeConfiguration(objects); err != nil {
				return err
			}
		}
		text, err := objects.AsYaml()
		if err != nil {
			return err
		}
		text = slices.Concat(fmt.Appendf(nil, "# cpupoold %s, deploy/%s of the repository.\n", r.version, dir), text)
		if err := writeFile(filepath.Join(r.out, name), text, 0o644); err != nil {
			return err
		}
	}
	config, err := os.ReadFile(r.source("deploy", "config.yaml"))
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(r.out, "cpupoold-config.yaml"), config, 0o644); err != nil {
		return err
	}
	files := map[string]string{}
	err = r.walkDeploy(func(path, name string) error {
		if !strings.HasPrefix(name, "deploy/chart/") && !strings.HasPrefix(name, "deploy/image/") {
			files[name] = path
		}
		return nil
	})
	if err != nil {
		return err
	}
	entries, err := readEntries(files, func(string) int64 { return 0o644 })
	if err != nil {
		return err
	}
	data, err := tarGz(entries, r.time)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(r.out, "cpupoold-deploy_"+r.version.String()+".tar.gz"), data, 0o644)
}

// removeConfiguration removes the daemon's configuration from manifests that an upgrade applies again.
func removeConfiguration(objects resmap.ResMap) error {
	for _, o := range objects.Resources() {
		if o.GetKind() == "ConfigMap" && o.GetName() == "cpupoold" {
			return objects.Remove(o.CurId())
		}
	}
	return errors.New("deploy has no ConfigMap cpupoold")
}

// walkDeploy calls do for each file of deploy/ in the clone that is no link, with its path and
// its name in the repository.
func (r *release) walkDeploy(do func(path, name string) error) error {
	return filepath.WalkDir(r.source("deploy"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(r.source(), path)
		if err != nil {
			return err
		}
		return do(path, filepath.ToSlash(name))
	})
}

// setImage replaces the image in manifests and values.
func (r *release) setImage() error {
	const values = "deploy/chart/cpupoold/values.yaml"
	return r.walkDeploy(func(path, name string) error {
		if filepath.Ext(name) != ".yaml" {
			return nil
		}
		old, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := strings.ReplaceAll(string(old), treeImage+":1", r.reference())
		if name == values {
			if text, err = r.setValues(text); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if strings.Contains(text, treeImage) {
			return fmt.Errorf("%s names the image %s in a way that is not known; write %s:1", name, treeImage, treeImage)
		}
		if text == string(old) {
			return nil
		}
		return os.WriteFile(path, []byte(text), 0o644)
	})
}

// setValues sets the image of the values.
func (r *release) setValues(text string) (string, error) {
	for key, value := range map[string]string{"repository": r.image, "tag": `"` + r.version.ociTag() + `"`, "digest": `"` + r.digest + `"`} {
		line := regexp.MustCompile(`(?m)^(image:\n(?:  .*\n)*?  ` + key + `: )\S+`)
		if !line.MatchString(text) {
			return "", fmt.Errorf("the values have no image.%s", key)
		}
		text = line.ReplaceAllString(text, "${1}"+value)
	}
	return text, nil
}

// readEntries reads files by their names in an archive, in the order of these names.
func readEntries(files map[string]string, mode func(name string) int64) ([]entry, error) {
	var entries []entry
	for name, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name, mode(name), data})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return entries, nil
}
