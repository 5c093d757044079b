//go:build e2e

package e2e_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

var dist = flag.String("dist", "", "absolute `directory` of release files, as make release writes it, for TestRelease")

// TestRelease installs image and chart of a release, from its files alone and by the commands of the guide, with the default configuration of the
// chart. Then it creates pods with exclusive CPUs. The machines have no network: the kubelet finds the image only under the digest in the chart.
func TestRelease(t *testing.T) {
	if *dist == "" {
		t.Skip("no release files; run make release, and name the directory with -dist")
	}
	images, err := filepath.Glob(filepath.Join(*dist, "cpupoold-image_*.tar"))
	if err != nil || len(images) != 1 {
		t.Fatalf("images in %s: %q, %v; want one", *dist, images, err)
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(images[0]), "cpupoold-image_"), ".tar")
	reference, err := os.ReadFile(filepath.Join(*dist, "cpupoold-image_"+version+".digest"))
	if err != nil {
		t.Fatal(err)
	}
	repository, _, _ := strings.Cut(string(reference), ":"+strings.ReplaceAll(version, "+", "_")+"@")
	guide := read(t, "docs/how-to/install/release-files.md")
	command := func(line string) string {
		t.Helper()
		if !strings.Contains(string(guide), line) {
			t.Fatalf("the guide lacks the command %q", line)
		}
		return strings.NewReplacer("0.1.0", version, "ghcr.io/cpupoold/cpupoold", repository).Replace(line)
	}

	c := start(t, "8c2n")
	for _, m := range c.machines {
		for _, file := range []string{images[0], strings.TrimSuffix(images[0], ".tar") + ".digest"} {
			m.bring(t, file, "/root/"+filepath.Base(file))
		}
		for _, line := range []string{
			"ctr --namespace k8s.io images import cpupoold-image_0.1.0.tar",
			`ctr --namespace k8s.io images tag ghcr.io/cpupoold/cpupoold:0.1.0 "$(sed 's/:[^:@/]*@/@/' cpupoold-image_0.1.0.digest)"`,
		} {
			m.run(t, "sh", "-euc", "cd /root; "+command(line))
		}
	}
	helm := exec.CommandContext(t.Context(), "go", "-C", "../../release", "build", "-o", filepath.Join(c.plane.dir, "helm"), "helm.sh/helm/v3/cmd/helm")
	if out, err := helm.CombinedOutput(); err != nil {
		t.Fatalf("build helm: %v: %s", err, out)
	}
	chart := "cpupoold-" + version + ".tgz"
	data, err := os.ReadFile(filepath.Join(*dist, chart))
	if err != nil {
		t.Fatal(err)
	}
	c.plane.write(t, chart, string(data))

	c.kubectl(t, "./"+command("helm install cpupoold ./cpupoold-0.1.0.tgz -n cpupoold --create-namespace"))
	// Of 8 CPUs the management pool has 0-1. The exclusive CPUs are a part of the shared pool, so no resource counts them apart.
	owned := cpuset.Range(2, 7)
	for _, m := range c.machines {
		c.shows(t, m.name, map[corev1.ResourceName]int64{cores: advertised(0)[cores], shared: int64(1000 * owned.Len())})
	}
	if got := c.kubectl(t, "kubectl -n cpupoold get daemonset cpupoold -o 'jsonpath={.spec.template.spec.containers[0].image}'"); got != strings.TrimSpace(string(reference)) {
		t.Errorf("the DaemonSet has the image %s; want %s", got, reference)
	}
	if got := c.kubectl(t, "kubectl -n cpupoold exec daemonset/cpupoold -- cpupoold --version"); !strings.HasPrefix(got, "cpupoold v"+version+", commit ") {
		t.Errorf("the daemon prints %q; want version %s", got, version)
	}
	c.namespace(t, "apps", "")
	first := c.own(t, "first", owned)

	c.kubectl(t, "./helm upgrade cpupoold ./"+chart+" -n cpupoold --reuse-values --set webhook.enabled=true")
	c.kubectl(t, "kubectl -n cpupool-webhook rollout status deployment cpupool-webhook")
	c.kubectl(t, "kubectl annotate namespace kube-system workload.openshift.io/allowed=management --overwrite")
	c.latched(t, cores, shared)
	c.own(t, "second", owned.Difference(first))
	if got := c.cpus(t, c.running(t, "apps", "first")); !got.Equal(first) {
		t.Errorf("pod first runs on %v after the upgrade; want %v", got, first)
	}
	c.kubectl(t, "./helm test cpupoold -n cpupoold")
	c.kubectl(t, "./helm uninstall cpupoold -n cpupoold")
}

// own creates a Guaranteed pod that requests two CPUs, and returns its CPUs. By the kernel, the pod has two of the given CPUs without a limit of CPU
// time, and no other container of the node may run on them.
func (c *cluster) own(t *testing.T, name string, of cpuset.Set) cpuset.Set {
	t.Helper()
	c.make(t, "apps", name, nil, "2|2")
	pod := c.running(t, "apps", name)
	cpus := c.cpus(t, pod)
	if cpus.Len() != 2 || !cpus.IsSubsetOf(of) {
		t.Errorf("pod %s runs on %v; want two of %v", name, cpus, of)
	}
	if got, want := c.file(t, pod, "cpu.max"), "max 100000"; got != want {
		t.Errorf("cpu.max of pod %s = %s; want %s", name, got, want)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	others := 0
	// grep fails if a container ends.
	for line := range strings.Lines(c.run(t, "sh", "-c", "grep -rs --include=cpuset.cpus.effective . /sys/fs/cgroup/kubepods.slice; true")) {
		file, list, _ := strings.Cut(strings.TrimSpace(line), ":")
		scope := filepath.Base(filepath.Dir(file))
		if !strings.HasSuffix(scope, ".scope") || strings.Contains(scope, id) {
			continue
		}
		others++
		if set, err := cpuset.Parse(list); err != nil || set.Overlaps(cpus) {
			t.Errorf("pod %s has CPUs %v, and %s runs on %s: %v", name, cpus, file, list, err)
		}
	}
	if others == 0 {
		t.Errorf("pod %s: the node has no other container", name)
	}
	return cpus
}
