//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm"
)

var earlier = flag.String("earlier", vm.EarlierRevision, "revision that TestUpgrade upgrades from and goes back to")

// The pools of both nodes, which have four CPUs each.
const upgradePools = `
    partitions:
    - type: management
      cpus: 0
      namespaces: [kube-system, cpupoold, cpupool-webhook, ops]
    shared:
      cpus: rest
    guaranteed:
      cpus: 2-3
`

// upgradeResources returns the resources that each node advertises. Uncounted is the request of pods in the shared pool that no resource counts.
func upgradeResources(uncounted int64) map[corev1.ResourceName]int64 {
	return map[corev1.ResourceName]int64{cores: 4000 - 20, shared: 1000 - uncounted, guaranteed: 2000}
}

// A podKind is a pod of one pool, and the result of webhook and daemon for it.
type podKind struct {
	name, namespace string
	annotations     map[string]string
	cpus            string // as spec takes it
	requests        map[corev1.ResourceName]int64
	pool            cpuset.Set
}

// podKinds returns one kind for each pool.
func podKinds() []podKind {
	return []podKind{
		{"management", "ops", management(), "100m", map[corev1.ResourceName]int64{cores: 100}, cpuset.Of(0)},
		{"shared", "apps", nil, "100m", map[corev1.ResourceName]int64{corev1.ResourceCPU: 100, shared: 100}, cpuset.Of(1)},
		{"guaranteed", "apps", nil, "1|1", map[corev1.ResourceName]int64{corev1.ResourceCPU: 1000, guaranteed: 1000}, cpuset.Range(2, 3)},
	}
}

// uncounted returns a pod in a namespace that the webhook does not change. The daemon of its node advertises less by its request: the Node shows
// whether the daemon still updates it.
func uncounted() podKind {
	return podKind{"uncounted", daemonNamespace, nil, "100m", map[corev1.ResourceName]int64{corev1.ResourceCPU: 100}, cpuset.Of(1)}
}

// A standingPod runs from the installation to the end of TestUpgrade.
type standingPod struct {
	*corev1.Pod

	kind podKind
	cpus cpuset.Set
	file string // cpuset.cpus.effective of its container
}

// A program is the daemon or the webhook, with the commands of docs/how-to/upgrade.md for it.
type program struct {
	namespace, name string // of its controller; its pods have a label with the name
	manifest        string // applies the rights or policies of the release
	roll            []string
}

func daemonProgram() program {
	return program{daemonNamespace, "cpupoold", "kubectl apply -f deploy/rbac.yaml", []string{
		`kubectl -n cpupoold set image daemonset cpupoold cpupoold="$IMAGE"`,
		"kubectl -n cpupoold rollout status daemonset cpupoold",
	}}
}

func webhookProgram() program {
	return program{webhookNamespace, "cpupool-webhook", "kubectl apply -f deploy/webhook/trust.yaml", []string{
		`kubectl -n cpupool-webhook set image deployment cpupool-webhook webhook="$IMAGE"`,
		"kubectl -n cpupool-webhook rollout status deployment cpupool-webhook",
	}}
}

// An upgrade is a cluster of two nodes with pods that run through all steps.
type upgrade struct {
	*cluster

	earlier release
	guide   manual
	pods    []standingPod
	before  map[string]string // latches after the installation
}

// TestUpgrade checks that daemon and webhook of an earlier revision and of this one work together, in all four combinations. A cluster of two
// nodes goes to this release in the order of docs/how-to/upgrade.md, back, and to this release again in the other order.
func TestUpgrade(t *testing.T) {
	old := buildEarlier(t)
	c := start(t, "4c1n", "4c1n")
	c.join(t, c.machines[1], "testdata/node/etc")
	u := &upgrade{cluster: c, earlier: old, guide: read(t, "docs/how-to/upgrade.md")}
	if !t.Run("install", u.install) {
		return
	}
	for _, step := range []struct {
		name    string
		program program
		to      release
	}{
		{"daemon first", daemonProgram(), thisRelease()},
		{"webhook second", webhookProgram(), thisRelease()},
		{"webhook back", webhookProgram(), old},
		{"daemon back", daemonProgram(), old},
		{"webhook first", webhookProgram(), thisRelease()},
		{"daemon second", daemonProgram(), thisRelease()},
	} {
		if !t.Run(step.name, func(t *testing.T) { u.step(t, step.program, step.to) }) {
			t.Fatalf("the steps after %q need its result", step.name)
		}
	}
	t.Run("old objects", u.deleteOld)
}

// deleteOld deletes the role of the earlier release and its binding, by the guide. The daemons still update their Nodes without them.
func (u *upgrade) deleteOld(t *testing.T) {
	const name = "cpupoold-startup-taint"
	get := map[string]func() error{
		"ClusterRole": func() error {
			_, err := u.RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{})
			return err
		},
		"ClusterRoleBinding": func() error {
			_, err := u.RbacV1().ClusterRoleBindings().Get(t.Context(), name, metav1.GetOptions{})
			return err
		},
	}
	for kind, exists := range get {
		if err := exists(); err != nil {
			t.Fatalf("%s %s of the earlier release: %v; the guide deletes it", kind, name, err)
		}
	}
	u.guide.follow(t, u.cluster, "kubectl delete clusterrole,clusterrolebinding "+name+" --ignore-not-found")
	for kind, exists := range get {
		if err := exists(); !apierrors.IsNotFound(err) {
			t.Errorf("%s %s after its deletion: error %v; want that it is not found", kind, name, err)
		}
	}
	kinds := []podKind{uncounted()}
	u.eachNode(t, "last", kinds, func(k podKind, pod *corev1.Pod) { u.isRight(t, k, pod) })
	u.bothShow(t, 100)
	u.deleteOnEach(t, "last", kinds)
	u.bothShow(t, 0)
	u.runs(t, daemonProgram(), thisRelease())
}

// buildEarlier returns the release of the earlier revision: an image of its programs, and its deploy/ with the name of this image. The test is
// skipped in a clone that does not have the revision.
func buildEarlier(t *testing.T) release {
	t.Helper()
	dir := t.TempDir()
	r := release{
		tar: filepath.Join(dir, "cpupoold-image.tar"), image: "localhost/cpupoold/cpupoold:earlier", deploy: filepath.Join(dir, "deploy"),
	}
	programs := filepath.Join(dir, "image", "amd64")
	if err := os.MkdirAll(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cpupoold", "cpupool-webhook"} {
		file, err := vm.BuildRevision(t.Context(), *earlier, "cmd/"+name)
		if errors.Is(err, vm.ErrNoRevision) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(programs, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	pack := exec.CommandContext(t.Context(), "go", "-C", "../../deploy/image", "run", ".",
		"-o", r.tar, "-ref", r.image, "-from", filepath.Dir(programs), "-entrypoint", "cpupoold")
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("pack the image of revision %s: %v: %s", *earlier, err, out)
	}
	if err := vm.CheckOut(t.Context(), *earlier, dir, "deploy"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"daemonset.yaml", "webhook/webhook.yaml"} {
		file := filepath.Join(r.deploy, name)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.ReplaceAll(string(text), "image: "+thisRelease().image, "image: "+r.image)
		if changed == string(text) {
			t.Fatalf("deploy/%s of revision %s does not name the image %s", name, *earlier, thisRelease().image)
		}
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// install installs the earlier release, starts the pods that run through all steps, and puts the image of this release on each machine.
func (u *upgrade) install(t *testing.T) {
	u.bringImage(t, u.earlier)
	u.use(t, u.earlier)
	u.configure(t, upgradePools)
	u.installDaemon(t, upgradeResources(0))
	u.installWebhook(t)
	u.runs(t, daemonProgram(), u.earlier)
	u.runs(t, webhookProgram(), u.earlier)
	u.before = u.latches(t)
	if len(u.before) != 3 {
		t.Fatalf("latches are %v; want three", u.before)
	}
	u.namespace(t, "ops", "management")
	u.namespace(t, "apps", "")
	u.eachNode(t, "standing", podKinds(), func(k podKind, pod *corev1.Pod) {
		u.isRight(t, k, pod)
		u.pods = append(u.pods, standingPod{Pod: pod, kind: k, cpus: u.cpus(t, pod), file: u.effectiveFile(t, pod)})
	})
	u.bringImage(t, thisRelease())
	u.guide.follow(t, u.cluster, "ctr --namespace k8s.io images import cpupoold-image.tar")
}

// step replaces one program on the cluster, and checks the pods that run, new pods, the resources of both nodes and the latches.
func (u *upgrade) step(t *testing.T, p program, to release) {
	defer u.keepMaking(t, "while "+p.name+" is replaced by "+to.image)()
	defer u.watch(t)()
	u.use(t, to)
	if to == u.earlier { // a policy of the earlier release may refuse the writes of this one
		u.guide.follow(t, u.cluster, append(slices.Clone(p.roll), p.manifest)...)
	} else {
		u.guide.follow(t, u.cluster, append([]string{p.manifest}, p.roll...)...)
	}
	u.runs(t, p, to)
	u.bothShow(t, 0)
	kinds := append(podKinds(), uncounted())
	u.eachNode(t, "new", kinds, func(k podKind, pod *corev1.Pod) { u.isRight(t, k, pod) })
	u.bothShow(t, 100)
	u.stand(t)
	if now := u.latches(t); !maps.Equal(now, u.before) {
		t.Errorf("latches = %v; want %v as after the installation", now, u.before)
	}
	u.deleteOnEach(t, "new", kinds)
	u.bothShow(t, 0)
}

// runs waits until all pods of a program have the image of a release and are ready. There is one daemon for each node, and as many replicas.
func (u *upgrade) runs(t *testing.T, p program, r release) {
	t.Helper()
	eventually(t, "the pods of "+p.name+" run "+r.image, func(ctx context.Context) error {
		pods, err := u.CoreV1().Pods(p.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + p.name})
		if err != nil {
			return err
		}
		if len(pods.Items) != len(u.machines) {
			return fmt.Errorf("there are %d pods; want %d", len(pods.Items), len(u.machines))
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if image := pod.Spec.Containers[0].Image; image != r.image || !ready(pod) {
				return fmt.Errorf("pod %s has the image %s, and its conditions are %+v", pod.Name, image, pod.Status.Conditions)
			}
		}
		return nil
	})
}

// bothShow waits until each node shows its resources, less the request of uncounted pods.
func (u *upgrade) bothShow(t *testing.T, uncounted int64) {
	t.Helper()
	for _, m := range u.machines {
		u.shows(t, m.name, upgradeResources(uncounted))
	}
}

func nameAt(prefix string, k podKind, m *machine) string { return prefix + "-" + k.name + "-" + m.name }

// eachNode creates a pod of each kind on each node, and calls do with each pod when it runs.
func (u *upgrade) eachNode(t *testing.T, prefix string, kinds []podKind, do func(podKind, *corev1.Pod)) {
	t.Helper()
	for _, m := range u.machines {
		for _, k := range kinds {
			u.makeAt(t, k.namespace, nameAt(prefix, k, m), m.name, k.annotations, k.cpus)
		}
	}
	for _, m := range u.machines {
		for _, k := range kinds {
			do(k, u.running(t, k.namespace, nameAt(prefix, k, m)))
		}
	}
}

// deleteOnEach deletes the pods that eachNode has created.
func (u *upgrade) deleteOnEach(t *testing.T, prefix string, kinds []podKind) {
	t.Helper()
	for _, m := range u.machines {
		for _, k := range kinds {
			if err := u.CoreV1().Pods(k.namespace).Delete(t.Context(), nameAt(prefix, k, m), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// isRight checks the requests, the CPUs and the weight of a pod.
func (u *upgrade) isRight(t *testing.T, k podKind, pod *corev1.Pod) {
	t.Helper()
	name := pod.Namespace + "/" + pod.Name
	for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, cores, shared, guaranteed} {
		if got, want := milli(pod, resource), k.requests[resource]; got != want {
			t.Errorf("pod %s requests %d of %s; want %d", name, got, resource, want)
		}
	}
	got := u.cpus(t, pod)
	if k.requests[guaranteed] == 0 {
		if !got.Equal(k.pool) {
			t.Errorf("pod %s runs on %v; want %v", name, got, k.pool)
		}
	} else if got.Len() != 1 || !got.IsSubsetOf(k.pool) {
		t.Errorf("pod %s runs on %v; want one CPU of %v", name, got, k.pool)
	}
	for _, other := range u.pods {
		if other.kind.requests[guaranteed] > 0 && other.Spec.NodeName == pod.Spec.NodeName && other.UID != pod.UID && got.Overlaps(other.cpus) {
			t.Errorf("pod %s runs on %v, and the CPUs of pod %s are %v", name, got, other.Name, other.cpus)
		}
	}
	if k.requests[cores] > 0 { // the daemon reads the shares from an annotation of the webhook: 102 for 100m
		if got, want := u.file(t, pod, "cpu.weight"), strconv.FormatUint(cgroup.WeightQuadratic(102), 10); got != want {
			t.Errorf("the weight of pod %s is %s; want %s", name, got, want)
		}
	}
}

// stand checks that each pod of the installation still has the same container on the same CPUs.
func (u *upgrade) stand(t *testing.T) {
	t.Helper()
	for _, s := range u.pods {
		pod := u.running(t, s.Namespace, s.Name)
		if got, want := pod.Status.ContainerStatuses[0].ContainerID, s.Status.ContainerStatuses[0].ContainerID; pod.UID != s.UID || got != want {
			t.Errorf("pod %s/%s has the container %s; at the installation it had %s", s.Namespace, s.Name, got, want)
			continue
		}
		u.isRight(t, s.kind, pod)
		if got := u.cpus(t, pod); !got.Equal(s.cpus) {
			t.Errorf("CPUs of pod %s/%s = %v; want %v as at the installation", s.Namespace, s.Name, got, s.cpus)
		}
	}
}

// effectiveFile returns the path of cpuset.cpus.effective of the container of a pod.
func (u *upgrade) effectiveFile(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	i := slices.IndexFunc(u.machines, func(m *machine) bool { return m.name == pod.Spec.NodeName })
	return u.machines[i].run(t, "find", "/sys/fs/cgroup/kubepods.slice", "-path", "*/cri-containerd-"+id+".scope/cpuset.cpus.effective")
}

// watchScript compares files with their values until the file $0 exists. Each argument is NAME=FILE=VALUE. It prints the first twenty
// differences, each with the time of the guest, and then the number of comparisons.
const watchScript = `
	comparisons=0 differences=0
	while [ ! -e "$0" ]; do
		for entry in "$@"; do
			name=${entry%%=*} rest=${entry#*=}
			read -r is <"${rest%%=*}" || is="gone"
			[ "$is" = "${rest#*=}" ] && continue
			differences=$((differences + 1))
			[ $differences -gt 20 ] || echo "$(date +%T) $name: $is, not ${rest#*=}"
		done
		comparisons=$((comparisons + 1))
		sleep 0.2
	done
	echo $comparisons`

// watch compares the CPUs of the standing pods with their CPUs at the installation, in each guest five times a second, until the caller calls end. The
// test fails if they differ at any time.
func (u *upgrade) watch(t *testing.T) (end func()) {
	t.Helper()
	const endFile = "/run/upgrade-watch-end"
	type result struct {
		out []byte
		err error
	}
	results := make([]chan result, len(u.machines))
	for i, m := range u.machines {
		m.run(t, "rm", "-f", endFile)
		args := []string{"sh", "-c", watchScript, endFile}
		for _, s := range u.pods {
			if s.Spec.NodeName == m.name {
				args = append(args, s.Namespace+"/"+s.Name+"="+s.file+"="+s.cpus.String())
			}
		}
		results[i] = make(chan result, 1)
		go func() {
			out, err := m.Run(t.Context(), args...)
			results[i] <- result{out, err}
		}()
	}
	return func() {
		for i, m := range u.machines {
			m.run(t, "touch", endFile)
			r := <-results[i]
			lines := strings.Split(strings.TrimSpace(string(r.out)), "\n")
			differences := lines[:len(lines)-1]
			comparisons, err := strconv.Atoi(lines[len(lines)-1])
			switch {
			case r.err != nil || err != nil:
				t.Errorf("watch the CPUs of pods on node %s: %v\n%s", m.name, errors.Join(r.err, err), r.out)
			case len(differences) > 0 || comparisons == 0:
				t.Errorf("the CPUs of pods on node %s changed; in %d comparisons, first differences:\n%s", m.name, comparisons, strings.Join(differences, "\n"))
			default:
				t.Logf("node %s: %d comparisons of the CPUs of pods, no difference", m.name, comparisons)
			}
		}
	}
}
