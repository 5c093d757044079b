//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/dra"
)

// uninstalls follows the documents for a node with a claim. No object, file or socket of the driver is left, and other pods go on.
func (c *claimCluster) uninstalls(t *testing.T) {
	c.claim(t, "last", "2", onNode(1))
	last := c.launch(t, claimPod("last", "last"))
	other := c.launch(t, claimPod("other"))
	guide := read(t, "docs/how-to/use-resource-claims.md")
	guide.follow(t, c.cluster, "kubectl delete -f deploy/dra/deviceclass.yaml")
	c.claim(t, "late", "1")
	c.add(t, claimPod("late", "late"))
	c.pends(t, "late", dra.Class)
	c.runsOn(t, last, "app", "6-7")
	c.end(t, "late", "last")
	c.free(t, "2-3,6-7")

	guide.follow(t, c.cluster, "kubectl delete -k deploy/dra --ignore-not-found")
	eventually(t, "the kubelet has deleted the slices", func(ctx context.Context) error {
		slices, err := c.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + dra.Driver})
		if err == nil && len(slices.Items) > 0 {
			err = errors.New("there are some")
		}
		return err
	})
	if left := c.run(t, "sh", "-c", "ls -d /var/run/cdi/*cpupoold* /var/lib/kubelet/plugins_registry/*cpupoold* 2>/dev/null || true"); left != "" {
		t.Errorf("files of the driver = %s; want none", left)
	}
	kinds := "deviceclasses,validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,clusterrolebindings"
	if left := c.kubectl(t, "kubectl get "+kinds+" -o name | grep cpupool-dra || true"); left != "" {
		t.Errorf("objects of the driver = %s; want none", left)
	}
	read(t, "docs/how-to/uninstall.md").follow(t, c.cluster,
		"kubectl --namespace cpupoold delete daemonset cpupoold",
		"kubectl apply -f deploy/uninstall/restore.yaml",
		"kubectl --namespace cpupoold rollout status daemonset cpupoold-restore",
		"kubectl delete -f deploy/uninstall/restore.yaml -f deploy/rbac.yaml -f deploy/daemonset.yaml --ignore-not-found")
	eventually(t, "namespace "+daemonNamespace+" is gone", func(ctx context.Context) error {
		_, err := c.CoreV1().Namespaces().Get(ctx, daemonNamespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
	if sets := c.run(t, "sh", "-euc", "find /sys/fs/cgroup/kubepods.slice -name cpuset.cpus.effective -exec cat {} + | sort -u"); sets != "0-7" {
		t.Errorf("cgroups of pods have the CPUs %q; want 0-7", strings.Fields(sets))
	}
	c.runsOn(t, other, "app", "0-7")
	c.launch(t, claimPod("afterwards"))
}
