package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/plugin/lint"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

const lintHelp = `Finds mistakes in manifests that keep pods from their pools, in the words of
kubectl cpupool explain:

- Whole CPUs in a pod that is not Guaranteed, with the container and the field.
- A fraction above one CPU.
- A workload type that the namespace does not allow, or none although it allows one.
- Annotations that are misspelt, malformed or on the wrong object, and labels instead.
- Containers without a CPU request.
- LimitRanges and ResourceQuotas that refuse or change pods of a workload type.
- Quotas on the resources of pools that count nothing, or were meant in CPUs.
- ClusterQueues of Kueue that admit no pods with these resources. --shared-cpus and
  --guaranteed-cpus state that the webhook adds the resources of these pools.
- Autoscalers that need or set the CPU requests of such pods.
- Containers with a ResourceClaim that spec.resourceClaims lacks, one claim with CPUs for
  several pods, and misspelt fields and rounded amounts in claims.

It reads each kind with a pod template, also custom resources. LimitRanges
in the files give pods their defaults first, as in the cluster.

The Namespaces in the files, and --allowed-namespaces, state the workload types that a
namespace allows. Lint assumes nothing about other namespaces. With that flag, other
namespaces allow no type. Each finding is one line:

  FILE:LINE KIND/NAME: mistake (remedy)

With --cluster, lint checks the objects of a running cluster; FILE is then "cluster".
It skips ReplicaSets, Jobs and Pods, because controllers make most of them from other objects.

The standard error states the kinds of the objects that lint has read or skipped.

Exit codes: 0 no findings, 1 findings, an unreadable object, or no object read, 2 usage.`

// Kueue's own manifests and chart create the ConfigMap with this name.
const kueueConfigMap = "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config"

type lintOptions struct {
	admissionFlags
	clusterFlags
	files     []string
	namespace string
	allowed   []string
	output    string
	allows    map[string][]string // the types of --allowed-namespaces by namespace; nil without the flag
}

func lintCommand(s streams) *cobra.Command {
	o := &lintOptions{}
	cmd := &cobra.Command{
		Use:   "lint {-f FILE|DIR | --cluster}",
		Short: "Find mistakes that keep pods from their pools",
		Long:  lintHelp,
		Args:  flagsOnly(o.check),
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), s) },
	}
	o.admissionFlags.add(cmd)
	flags := cmd.Flags()
	o.clusterFlags.add(flags)
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "`FILE` of manifests, - for the standard input, or a tree of files; may be repeated")
	flags.StringVarP(&o.namespace, "namespace", "n", "default", "`NAMESPACE` of objects without a namespace")
	flags.StringSliceVar(&o.allowed, "allowed-namespaces", nil, "`NAMESPACE[=TYPE]` that allows a workload type, by default the first --type; may be repeated")
	flags.StringVarP(&o.output, "output", "o", "text", "`FORMAT`: text or json")
	return cmd
}

func (o *lintOptions) check() error {
	if len(o.types) == 0 {
		return errors.New("--type is empty; name a workload type")
	}
	if err := cmp.Or(checkSource(o.files, o.clusterFlags), checkOutput(o.output)); err != nil {
		return err
	}
	for _, entry := range o.allowed {
		namespace, typ, given := strings.Cut(entry, "=")
		if !given {
			typ = o.types[0]
		}
		if namespace == "" || typ == "" {
			return fmt.Errorf("--allowed-namespaces %q: a name is missing; write NAMESPACE or NAMESPACE=TYPE", entry)
		}
		if o.allows == nil {
			o.allows = map[string][]string{}
		}
		o.allows[namespace] = append(o.allows[namespace], typ)
	}
	return nil
}

func (o *lintOptions) run(ctx context.Context, s streams) error {
	o.switchOn()
	var coverage manifest.Coverage
	names, errs := listFiles(o.files, true, &coverage)
	var files []lint.File
	add := func(name string, data []byte) {
		objects, bad := manifest.Objects(data)
		for _, err := range bad {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		coverage.Add(name, objects, bad, lint.Reads)
		files = append(files, lint.File{Name: name, Objects: objects})
	}
	for _, name := range names {
		data, err := read(s.in, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		add(name, data)
	}
	if o.given() {
		data, err := o.readCluster(ctx, s)
		if err != nil {
			return err
		}
		add("cluster", data)
	}
	errs = append(errs, reportCoverage(s, &coverage, errs, "Pods, workloads, Namespaces, LimitRanges, ResourceQuotas, ClusterQueues or autoscalers"))
	findings := lint.Settings{Admission: o.settings, Namespace: o.namespace, Allowed: o.allows}.Check(files)
	if err := s.show(o.output, findings, func(w *layout.Writer) {
		for _, f := range findings {
			fmt.Fprintln(w, f)
		}
	}); err != nil {
		return err
	}
	if err := errors.Join(errs...); err != nil || len(findings) == 0 {
		return err
	}
	return errReported
}

// readCluster reads the objects of a cluster as a list. Without the permission for autoscalers that are not a part
// of Kubernetes, it prints a note: the API server does not show whether they are installed.
func (o *lintOptions) readCluster(ctx context.Context, s streams) ([]byte, error) {
	a, err := o.connect()
	if err != nil {
		return nil, err
	}
	items, err := a.read(ctx, "/api/v1/namespaces", "/api/v1/limitranges", "/api/v1/resourcequotas", "/api/v1/replicationcontrollers",
		"/apis/apps/v1/deployments", "/apis/apps/v1/statefulsets", "/apis/apps/v1/daemonsets", "/apis/batch/v1/cronjobs",
		"/apis/autoscaling/v2/horizontalpodautoscalers")
	if err != nil {
		return nil, err
	}
	for _, path := range []string{"/apis/autoscaling.k8s.io/v1/verticalpodautoscalers", "/apis/keda.sh/v1alpha1/scaledobjects"} {
		more, err := a.optional(ctx, s, path[strings.LastIndexByte(path, '/')+1:]+" are not checked", path)
		if err != nil {
			return nil, err
		}
		items = append(items, more...)
	}
	queues, err := a.readKueue(ctx, s)
	if err != nil {
		return nil, err
	}
	return asList(append(items, queues...))
}

// readKueue reads the ClusterQueues and the Configuration of Kueue. It returns nothing if
// the API server has no ClusterQueues. Without a permission or the ConfigMap, a note is printed.
func (a *api) readKueue(ctx context.Context, s streams) (items []json.RawMessage, err error) {
	for _, version := range []string{"v1beta2", "v1beta1"} {
		queues, err := a.list(ctx, "/apis/kueue.x-k8s.io/"+version+"/clusterqueues", "application/json")
		switch {
		case err == nil:
			items = queues
		case answers(err, http.StatusNotFound):
			continue
		case answers(err, http.StatusForbidden):
			fmt.Fprintf(s.err, "note: clusterqueues are not checked: %v\n", err)
		default:
			return nil, err
		}
		break
	}
	if len(items) > 0 {
		var configMap json.RawMessage
		switch err := a.object(ctx, kueueConfigMap, &configMap); {
		case err == nil:
			items = append(items, configMap)
		case answers(err, http.StatusNotFound, http.StatusForbidden):
			fmt.Fprintf(s.err, "note: the Configuration of Kueue is not checked: %v\n", err)
		default:
			return nil, err
		}
	}
	return items, nil
}
