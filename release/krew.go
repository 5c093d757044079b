package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/krew/pkg/constants"
	"sigs.k8s.io/krew/pkg/index"
	"sigs.k8s.io/yaml"
)

// krew writes the manifest with which krew installs kubectl-cpupool.
func (r *release) krew(context.Context) error {
	plugin := index.Plugin{
		TypeMeta:   metav1.TypeMeta{APIVersion: constants.CurrentAPIVersion, Kind: constants.PluginKind},
		ObjectMeta: metav1.ObjectMeta{Name: "cpupool"},
		Spec: index.PluginSpec{
			Version:          r.version.tag(),
			Homepage:         "https://github.com/cpupoold/cpupoold",
			ShortDescription: "Plan and check CPU pools of nodes",
			Description: "Shows nodes and pods by CPU pool, simulates the placement of pods on a machine, " +
				"and finds manifests that keep pods from their pools. The nodes run cpupoold.",
		},
	}
	for _, p := range all() {
		if p.name != "kubectl-cpupool" {
			continue
		}
		archive := r.archiveOf(p)
		data, err := os.ReadFile(filepath.Join(r.out, archive))
		if err != nil {
			return err
		}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, index.Platform{
			URI:      r.url + "/" + r.version.tag() + "/" + archive,
			Sha256:   fmt.Sprintf("%x", sha256.Sum256(data)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"os": p.os, "arch": p.arch}},
			Files:    []index.FileOperation{{From: p.file(), To: "."}, {From: "LICENSE", To: "."}, {From: thirdParty, To: "."}},
			Bin:      p.file(),
		})
	}
	text, err := yaml.Marshal(plugin)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(r.out, "cpupool.krew.yaml"), text, 0o644)
}
