package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/renameio/v2/maybe"
	"github.com/rogpeppe/go-internal/diff"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// patchSuffix is the end of the names of kubeadm's patch files
// (target[suffix][+patchtype].extension). kubeadm applies them in the order of
// their names; the digit puts this patch after patches that change CPU requests.
const patchSuffix = "9-cpupool+strategic.yaml"

// kubeadmPods returns the static pods that kubeadm writes, and patches, by name.
func kubeadmPods() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
}

// patches writes kubeadm's patches for the static pods in files. It goes on after
// an error.
func (o *mutateOptions) patches(s streams) error {
	if !isDirectory(o.patchDir) {
		return fmt.Errorf("--kubeadm-patches %s: no such directory; make it first", o.patchDir)
	}
	var coverage manifest.Coverage
	files, errs := listFiles(o.files, o.recursive, &coverage)
	for _, file := range files {
		errs = append(errs, inFile(file, o.patchFile(s, file, &coverage), ""))
	}
	return errors.Join(append(errs, reportCoverage(s, &coverage, errs, "the static pods of kubeadm"))...)
}

func (o *mutateOptions) patchFile(s streams, file string, coverage *manifest.Coverage) error {
	data, err := read(s.in, file)
	if err != nil {
		return err
	}
	objects, bad := manifest.Objects(data)
	coverage.Add(file, objects, bad, func(o *manifest.Object) bool {
		return o.Pod != nil && o.PodPath == "" && slices.Contains(kubeadmPods(), o.Name)
	})
	type pair struct{ before, after *corev1.Pod }
	var pods []pair
	result, err := manifest.Rewrite(data, func(pod *corev1.Pod) (*corev1.Pod, []string, error) {
		after, notes, err := o.mutate(pod)
		if pod.Kind == "Pod" { // and no template
			pods = append(pods, pair{pod, after})
		}
		return after, notes, err
	})
	o.note(s, file, result.Notes)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		name := pod.before.Name
		if !slices.Contains(kubeadmPods(), name) {
			fmt.Fprintf(s.err, "warning: %s: Pod/%s is skipped: kubeadm patches only %s; use --in-place for others\n",
				file, name, strings.Join(kubeadmPods(), ", "))
			continue
		}
		patch, err := o.strategicPatch(pod.before, pod.after)
		if err != nil {
			return fmt.Errorf("%s: %w", "Pod/"+name, err)
		}
		if err := o.writePatch(s, name, patch); err != nil {
			return fmt.Errorf("%s: %w", "Pod/"+name, err)
		}
	}
	return nil
}

// writePatch writes the patch of one pod. A file that is not ours is not written over.
func (o *mutateOptions) writePatch(s streams, pod string, patch []byte) error {
	path := filepath.Join(o.patchDir, pod+patchSuffix)
	is, err := os.ReadFile(path)
	exists := err == nil
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case exists && !bytes.HasPrefix(is, []byte(patchHead)):
		return fmt.Errorf("%s exists and does not begin with %q; move it away", path, strings.TrimSpace(patchHead))
	case patch == nil && exists:
		return fmt.Errorf("%s is of an earlier run, and now the pod asks for no pool; remove the file, or give --target", path)
	case patch == nil:
		fmt.Fprintf(s.out, "Pod/%s: no patch, it asks for no pool; see --target\n", pod)
		return nil
	case exists && bytes.Equal(is, patch):
		fmt.Fprintf(s.out, "%s: nothing to change\n", path)
		return nil
	case o.diff:
		_, err := s.out.Write(diff.Diff(path, is, path+" (new)", patch))
		return err
	}
	if err := maybe.WriteFile(path, patch, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s: written\n", path)
	return nil
}

// patchHead is the first line of each patch that this program writes.
const patchHead = "# Written by kubectl-cpupool mutate --kubeadm-patches.\n"

// strategicPatch returns the strategic merge patch with all values that the mutation
// writes; nil if it writes none. It contains unchanged values too, because kubeadm applies
// it to a manifest that was never mutated, even if this one was. The error is for bad names
// of containers, by which the patch finds them.
func (o *mutateOptions) strategicPatch(before, after *corev1.Pod) ([]byte, error) {
	names := o.settings.Names
	ours := func(resource string) bool {
		return names.IsPool(resource) || resource == "memory" && !o.memory.IsZero()
	}
	patch := map[string]any{}
	if annotations := changes(before.Annotations, after.Annotations, names.Requests); len(annotations) > 0 {
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
