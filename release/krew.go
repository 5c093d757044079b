package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// plugin is a manifest of krew, as in sigs.k8s.io/krew/pkg/index. The module of krew is not used:
// it needs a release of client-go that does not fit to helm.
type plugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string           `json:"version"`
		Homepage         string           `json:"homepage"`
		ShortDescription string           `json:"shortDescription"`
		Description      string           `json:"description"`
		Platforms        []pluginPlatform `json:"platforms"`
	} `json:"spec"`
}

type pluginPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string       `json:"uri"`
	SHA256 string       `json:"sha256"`
	Files  []pluginFile `json:"files"`
	Bin    string       `json:"bin"`
}

type pluginFile struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// krew writes the manifest with which krew installs kubectl-cpupool.
func (r *release) krew(context.Context) error {
	m := plugin{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin"}
	m.Metadata.Name = "cpupool"
	m.Spec.Version = r.version.tag()
	m.Spec.Homepage = "https://github.com/cpupoold/cpupoold"
	m.Spec.ShortDescription = "Plan and check CPU pools of nodes"
	m.Spec.Description = "Shows nodes and pods by CPU pool, simulates the placement of pods on a machine, " +
		"and finds manifests that keep pods from their pools. The nodes run cpupoold."
	for _, p := range all() {
		if p.name != "kubectl-cpupool" {
			continue
		}
		archive := r.archiveOf(p)
		data, err := os.ReadFile(filepath.Join(r.out, archive))
		if err != nil {
			return err
		}
		platform := pluginPlatform{
			URI:    r.url + "/" + r.version.tag() + "/" + archive,
			SHA256: fmt.Sprintf("%x", sha256.Sum256(data)),
			Files:  []pluginFile{{p.file(), "."}, {"LICENSE", "."}, {thirdParty, "."}},
			Bin:    p.file(),
		}
		platform.Selector.MatchLabels = map[string]string{"os": p.os, "arch": p.arch}
		m.Spec.Platforms = append(m.Spec.Platforms, platform)
	}
	text, err := yaml.Marshal(m)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(r.out, "cpupool.krew.yaml"), text, 0o644)
}
