package main

import (
	"bytes"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// patchHead is the first line of each patch that this program writes.
const patchHead = "# Written by kubectl-cpupool mutate --kubeadm-patches.\n"

// strategicPatch returns the strategic merge patch with all values that the mutation
// writes; nil if it writes none. It contains unchanged values too, because kubeadm applies
// it to a manifest that was never mutated, even if this one was. The error is for bad names
// of containers, by which the patch finds them.
func (o *mutateOptions) strategicPatch(before, after *corev1.Pod) ([]byte, error) {
	names := o.settings.Names
	ours := func(resource string) bool {
		_, cores := names.CoresType(resource)
		return cores || resource == "memory" && !o.memory.IsZero() || resource == names.SharedResource() || resource == names.GuaranteedResource()
	}
	patch := map[string]any{}
	if annotations := changes(before.Annotations, after.Annotations, names.Claims); len(annotations) > 0 {
		patch["metadata"] = map[string]any{"annotations": annotations}
	}
	spec := map[string]any{}
	seen := map[string]bool{}
	for _, list := range []struct {
		key           string
		before, after []corev1.Container
	}{
		{"initContainers", before.Spec.InitContainers, after.Spec.InitContainers},
		{"containers", before.Spec.Containers, after.Spec.Containers},
	} {
		var containers []any
		for i, c := range list.after {
			if c.Name == "" || seen[c.Name] {
				return nil, fmt.Errorf("containers need names, each its own, for a patch to find them; %s is not", strconv.Quote(c.Name))
			}
			seen[c.Name] = true
			was := list.before[i].Resources
			resources := map[string]any{}
			requests := changes(manifest.Quantities(was.Requests), manifest.Quantities(c.Resources.Requests), ours)
			limits := changes(manifest.Quantities(was.Limits), manifest.Quantities(c.Resources.Limits), ours)
			for name := range c.Resources.Requests {
				// Counted as the resource of a workload type, it must not be CPU too.
				if _, cores := names.CoresType(string(name)); cores {
					requests["cpu"], limits["cpu"] = nil, nil
				}
			}
			if len(requests) > 0 {
				resources["requests"] = requests
			}
			if len(limits) > 0 {
				resources["limits"] = limits
			}
			if len(resources) > 0 {
				containers = append(containers, map[string]any{"name": c.Name, "resources": resources})
			}
		}
		if len(containers) > 0 {
			spec[list.key] = containers
		}
	}
	if was, is := before.Spec.Resources, after.Spec.Resources; was != nil && is != nil {
		// Sums that the API server computes from the containers change with their requests.
		if requests := changes(manifest.Quantities(was.Requests), manifest.Quantities(is.Requests), ours); len(requests) > 0 {
			spec["resources"] = map[string]any{"requests": requests}
		}
	}
	if len(spec) > 0 {
		patch["spec"] = spec
	}
	if len(patch) == 0 {
		return nil, nil
	}
	out := bytes.NewBufferString(patchHead)
	enc := yaml.NewEncoder(out)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	if err := enc.Encode(patch); err != nil {
		return nil, err
	}
	err := enc.Close()
	return out.Bytes(), err
}

// changes returns the members of a patch from before to after: new values, all values
// that ours selects, and null for removed values.
func changes(before, after map[string]string, ours func(string) bool) map[string]any {
	patch := map[string]any{}
	for key := range before {
		if _, stays := after[key]; !stays {
			patch[key] = nil
		}
	}
	for key, value := range after {
		if old, had := before[key]; !had || old != value || ours(key) {
			patch[key] = value
		}
	}
	return patch
}
