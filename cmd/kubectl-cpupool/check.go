package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/codes"
	"github.com/cpupoold/cpupoold/internal/findings"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/nodekind"
	"github.com/cpupoold/cpupoold/internal/plugin/clustercheck"
)

const checkHelp = `Examines a cluster before cpupoold is installed. A table lists the nodes with kernel,
runtime, kubelet, policies and operating system. Findings follow, the most severe first,
each with the remedy. They are about the kubelet's static policy, runtimes without NRI,
old kernels, other managers of CPUs and quotas. Windows nodes and virtual nodes are
also findings.

It reads nodes, DaemonSets, ResourceQuotas, the metadata of pods, and the configuration
of each kubelet (get nodes/proxy). It changes nothing. A fact that it cannot read is
stated with the reason. cpupoold check examines a node itself, and finds more.

Exit codes: 0 no error found, 3 an error found, or a reason for which the daemon would
not start, 1 the nodes cannot be read, 2 usage.`

// Limits of the questions to kubelets.
const (
	maxConfigz  = 1 << 20
	configzTime = 15 * time.Second
	maxKubelets = 8 // at the same time
)

type checkOptions struct{ nodesOptions }

func checkCommand(s streams) *cobra.Command {
	o := &checkOptions{}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Examine the nodes of a cluster before the installation",
		Long:  checkHelp,
		Args:  flagsOnly(o.check),
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, err := o.gather(cmd.Context(), newProgress(s.err, "configurations of kubelets"))
			if err != nil {
				return err
			}
			d := clustercheck.Of(*in)
			err = s.show(o.output, d, func(w *layout.Writer) { printCheck(w, &d) })
			if err == nil && len(d.Findings) > 0 && d.Findings[0].Severity >= findings.Error {
				return errRefused
			}
			return err
		},
	}
	o.add(cmd)
	return cmd
}

// gather reads the cluster. Only the nodes are necessary.
func (o *checkOptions) gather(ctx context.Context, p *progress) (*clustercheck.Input, error) {
	a, err := o.connect()
	if err != nil {
		return nil, err
	}
	in := &clustercheck.Input{Names: o.names}
	if in.Nodes, err = objectsOf[corev1.Node](ctx, a, "/api/v1/nodes", "application/json"); err != nil {
		return nil, err
	}
	miss := func(what string, err error) {
		if err != nil {
			in.Unread = append(in.Unread, clustercheck.Unread{What: what, Why: err.Error()})
		}
	}
	in.DaemonSets, err = objectsOf[appsv1.DaemonSet](ctx, a, "/apis/apps/v1/daemonsets", "application/json")
	miss("DaemonSets, which show other managers of CPUs", err)
	in.Quotas, err = objectsOf[corev1.ResourceQuota](ctx, a, "/api/v1/resourcequotas", "application/json")
	miss("ResourceQuotas", err)
	in.Pods, err = objectsOf[metav1.PartialObjectMetadata](ctx, a, "/api/v1/pods", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	miss("annotations of pods, which request CPUs from other managers", err)
	in.Partitioning, err = partitioning(ctx, a)
	miss("workload partitioning of OpenShift", err)
	readKubelets(ctx, a, in, p)
	return in, ctx.Err()
}

func objectsOf[T any](ctx context.Context, a *api, path, accept string) ([]T, error) {
	items, err := a.list(ctx, path, accept)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(items))
	for i, item := range items {
		if err := json.Unmarshal(item, &all[i]); err != nil {
			return nil, fmt.Errorf("read %s of %s: item %d: %w", path, a.server, i, err)
		}
	}
	return all, nil
}

// partitioning returns the state of workload partitioning; empty without OpenShift.
func partitioning(ctx context.Context, a *api) (string, error) {
	var infrastructure struct {
		Status struct {
			CPUPartitioning string `json:"cpuPartitioning"`
		} `json:"status"`
	}
	err := a.get(ctx, "/apis/config.openshift.io/v1/infrastructures/cluster", nil, "application/json", maxConfigz, &infrastructure)
	if answers(err, http.StatusNotFound) {
		return "", nil
	}
	return infrastructure.Status.CPUPartitioning, err
}

// readKubelets reads the configurations of the kubelets. A kubelet that does not answer does
// not delay the others.
func readKubelets(ctx context.Context, a *api, in *clustercheck.Input, p *progress) {
	var nodes []string
	for i := range in.Nodes {
		if nodekind.CanRun(&in.Nodes[i]) {
			nodes = append(nodes, in.Nodes[i].Name)
		}
	}
	in.Kubelets = make(map[string]clustercheck.Kubelet)
	var g errgroup.Group
	var mu sync.Mutex // guards in and p
	g.SetLimit(maxKubelets)
	for _, node := range nodes {
		g.Go(func() error {
			k, err := configz(ctx, a, node)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				in.Kubelets[node] = k
			} else {
				// Equal reasons of several nodes are one line.
				why := strings.NewReplacer("/"+node+"/", "/NODE/", `"`+node+`"`, "NODE").Replace(err.Error())
				in.Unread = append(in.Unread, clustercheck.Unread{What: "configuration of the kubelet", Nodes: []string{node}, Why: why})
			}
			p.step(len(nodes))
			return nil
		})
	}
	_ = g.Wait() // no job returns an error
	p.end()
}

// configz reads the configuration of a kubelet through the API server.
func configz(ctx context.Context, a *api, node string) (clustercheck.Kubelet, error) {
	ctx, cancel := context.WithTimeout(ctx, configzTime)
	defer cancel()
	var answer struct {
		Kubelet *clustercheck.Kubelet `json:"kubeletconfig"`
	}
	err := a.get(ctx, "/api/v1/nodes/"+url.PathEscape(node)+"/proxy/configz", nil, "application/json", maxConfigz, &answer)
	if err == nil && answer.Kubelet == nil {
		err = errors.New("the kubelet's answer has no kubeletconfig")
	}
	if err != nil {
		return clustercheck.Kubelet{}, err
	}
	return *answer.Kubelet, nil
}

func printCheck(w *layout.Writer, d *clustercheck.Document) {
	t := layout.NewTable("NODE", "KERNEL", "RUNTIME", "NRI DEFAULT", "KUBELET", "CPU POLICY", "TOPOLOGY", "DRIVER", "CGROUPS", "RESERVED CPUS", "OS")
	for _, n := range d.Nodes {
		k := cmp.Or(n.Kubelet, &clustercheck.Kubelet{CPUManagerPolicy: "?", TopologyManagerPolicy: "?", CgroupDriver: "?", ReservedSystemCPUs: "?"})
		t.Row(n.Name, n.Kernel, n.Runtime, cmp.Or(n.NRI, "?"), n.Version, k.CPUManagerPolicy, k.TopologyManagerPolicy, k.CgroupDriver, cmp.Or(n.Cgroup, "?"),
			k.ReservedSystemCPUs, n.OS)
	}
	w.Table(t)
	fmt.Fprintln(w)
	for _, f := range d.Findings {
		fmt.Fprintf(w, "%-7s %s: %s%s\n", f.Severity, f.Check, layout.Printable(f.String()), ofNodes(f.Nodes))
	}
	for _, u := range d.Unread {
		fmt.Fprintf(w, "not read: %s%s: %s\n", u.What, ofNodes(u.Nodes), layout.Printable(u.Why))
	}
	switch {
	case len(d.Findings) > 0:
		fmt.Fprintln(w, codes.Hint())
	case len(d.Unread) > 0:
		fmt.Fprintln(w, "No problems found in the facts that were read.")
	default:
		fmt.Fprintln(w, "No problems found.")
	}
}

// ofNodes returns the nodes in parentheses: the first five, and the number of the others.
func ofNodes(nodes []string) string {
	const most = 5
	switch n := len(nodes); {
	case n == 0:
		return ""
	case n > most:
		return fmt.Sprintf(" (%s and %d more nodes)", strings.Join(nodes[:most], ", "), n-most)
	default:
		return fmt.Sprintf(" (%s)", strings.Join(nodes, ", "))
	}
}

// progress shows on a terminal how many steps are done.
type progress struct {
	w    io.Writer // nil without a terminal
	what string
	done int
}

func newProgress(w io.Writer, what string) *progress {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &progress{w: w, what: what}
	}
	return &progress{}
}

// step counts a step of all. Of very many steps it shows each hundredth.
func (p *progress) step(all int) {
	if p.done++; p.w != nil && (p.done%max(all/100, 1) == 0 || p.done == all) {
		fmt.Fprintf(p.w, "\r%d of %d %s", p.done, all, p.what)
	}
}

func (p *progress) end() {
	if p.w != nil && p.done > 0 {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
