package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/explain"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/plugin/overview"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/internal/verdict"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

const explainHelp = `Prints in one sentence why a pod has its CPUs, and what to change for other CPUs:

  kubectl cpupool explain du-0 -n ran

The command queries the daemon of the pod's node, as kubectl exec does in the daemon's pod.
It reads the pod from the API server, and so finds the containers without a required limit.
Without the right to exec in the daemon's pod, it uses only the pod's spec and the node's
resources, and a note states so. --details adds the daemon's rules, candidates, changes and
writes.`

type explainOptions struct {
	clusterFlags
	daemonFlags
	pods     string // the namespace of the pod
	details  bool
	output   string
	names    workload.Names
	defaults admission.Defaults
}

func explainCommand(s streams) *cobra.Command {
	o := &explainOptions{}
	cmd := &cobra.Command{
		Use:   "explain POD[/CONTAINER]",
		Short: "Print why a pod has its CPUs",
		Long:  explainHelp,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || strings.HasPrefix(args[0], "/") || args[0] == "" {
				return errors.New("give the name of one pod, or POD/CONTAINER")
			}
			return checkOutput(o.output)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := o.run(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return s.show(o.output, e, func(w *layout.Writer) { explain.Print(w, e, o.details) })
		},
	}
	flags := cmd.Flags()
	o.addConfig(flags, "")
	o.daemonFlags.add(flags)
	flags.StringVarP(&o.pods, "namespace", "n", "", "`NAMESPACE` of the pod, instead of the namespace of the kubeconfig's context")
	flags.BoolVar(&o.details, "details", false, "also print rules, candidates, changes, the cgroup and events")
	addNames(flags, &o.names, "annotations and types")
	addDefaults(flags, &o.defaults)
	flags.StringVarP(&o.output, "output", "o", "text", "`FORMAT`: text or json")
	return cmd
}

// run returns the explanation of a pod, or of one of its containers.
func (o *explainOptions) run(ctx context.Context, name string) (*inspect.Explanation, error) {
	name, container, _ := strings.Cut(name, "/")
	var pod corev1.Pod
	a, err := o.connect()
	if err != nil {
		return nil, err
	}
	if o.pods == "" {
		if o.pods, _, err = o.kubeconfigs().Namespace(); err != nil {
			return nil, fmt.Errorf("kubeconfig: %w; see --namespace", err)
		}
	}
	err = a.object(ctx, "/api/v1/namespaces/"+url.PathEscape(o.pods)+"/pods/"+url.PathEscape(name), &pod)
	if answers(err, http.StatusNotFound) && container != "" {
		err = fmt.Errorf("%w; for pod %s of namespace %s write explain %s -n %s", err, container, name, container, name)
	}
	if err == nil {
		err = named("pod "+o.pods+"/"+name, admission.CheckCPU(&pod))
	}
	if err != nil {
		return nil, err
	}
	var notes []string
	node := o.node(ctx, a, pod.Spec.NodeName)
	e, err := o.ask(ctx, &pod, container)
	hasContainers := !errors.Is(err, errNotCreated)
	if err != nil {
		from := "the pod's spec"
		if node != nil {
			from += " and its node's resources"
		}
		unknown := "free CPUs are unknown"
		if node != nil && !slices.ContainsFunc(node.Pools, func(p overview.Pool) bool { return p.Name == inspect.Guaranteed }) {
			// With guaranteed.from: shared, a node has exclusive CPUs and shows no resource for them.
			unknown = "free CPUs are unknown, as is whether the node has a guaranteed pool"
		}
		notes = append(notes, fmt.Sprintf("there is no answer of the daemon: %v; this answer follows from %s, and %s", err, from, unknown))
		used, note := claimsOf(ctx, a, &pod)
		if note != "" {
			notes = append(notes, note)
		}
		if e, err = presume(&pod, container, o, node, used); err != nil {
			return nil, err
		}
	}
	facts := simulate.Facts(&pod, o.defaults)
	facts.Names, facts.Types, facts.Pending = o.names, typesOf(node), pod.Spec.NodeName == "" || !hasContainers
	compose(e, facts)
	e.Notes = append(e.Notes, notes...)
	return e, nil
}

// compose gives the subjects of an explanation the sentences that follow from the pod's spec. The
// place and its reason stay.
func compose(e *inspect.Explanation, pod *verdict.Pod) {
	for i, s := range e.Subjects {
		v := verdict.Of(&s.Container, s.Problems, pod)
		e.Subjects[i].Sentence, e.Subjects[i].Fix = v.Sentence, v.Fix
	}
}

func (o *explainOptions) ask(ctx context.Context, pod *corev1.Pod, container string) (*inspect.Explanation, error) {
	if pod.Spec.NodeName == "" {
		return nil, pending(pod)
	}
	all, err := o.daemons(ctx, o.daemonFlags)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, questionTime)
	defer cancel()
	// The kubelet runs a static pod under the UID of its manifest.
	name := cmp.Or(pod.Annotations["kubernetes.io/config.hash"], string(pod.UID))
	if container != "" {
		name += "/" + container
	}
	e, err := all.explain(ctx, pod.Spec.NodeName, name)
	return created(e, err, name)
}

// errNotCreated is the error for a pod without a container that the daemon knows.
var errNotCreated = errors.New("it knows no container of the pod yet; kubectl describe pod shows whether the kubelet has created one")

// created returns errNotCreated if the daemon does not know the pod by its name, or knows only its pause container. Otherwise it returns e and err.
func created(e *inspect.Explanation, err error, name string) (*inspect.Explanation, error) {
	if err != nil {
		if strings.Contains(err.Error(), strconv.Quote(name)+" names no pod") {
			err = errNotCreated
		}
		return nil, err
	}
	if !e.HasContainer() {
		return nil, errNotCreated
	}
	return e, nil
}

// pending returns the reason why a pod has no node, as far as the scheduler has stated one.
func pending(pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			return fmt.Errorf("the pod has no node yet (scheduler: %s)", strings.TrimSuffix(c.Message, "."))
		}
	}
	return errors.New("the pod has no node yet")
}

// node returns a node with its pools, or nil if the user may not read it or it shows none.
func (o *explainOptions) node(ctx context.Context, a *api, name string) *overview.Node {
	var n corev1.Node
	if name == "" || a.object(ctx, "/api/v1/nodes/"+url.PathEscape(name), &n) != nil {
		return nil
	}
	if all := overview.Of([]corev1.Node{n}, nil, o.names, time.Now()); len(all[0].Pools) > 0 {
		return &all[0]
	}
	return nil
}

func typesOf(n *overview.Node) (types []string) {
	for i := 0; n != nil && i < len(n.Pools); i++ {
		if n.Pools[i].Name == inspect.Management {
			types = append(types, n.Pools[i].Type)
		}
	}
	return types
}

// presume returns the explanation that follows from the pod's spec on a node with free CPUs. claims are the
// containers on CPUs of ResourceClaims, by claim.
func presume(pod *corev1.Pod, container string, o *explainOptions, node *overview.Node, claims map[string][]string) (*inspect.Explanation, error) {
	p := simulate.Presumed{Names: o.names, Types: typesOf(node), Defaults: o.defaults, Claims: claims}
	if len(p.Types) == 0 {
		p.Types = []string{inspect.Management}
	}
	all, err := p.Answers(pod)
	if err != nil {
		return nil, err
	}
	e := &inspect.Explanation{Version: inspect.Version, Time: time.Now().UTC(), Asked: pod.Namespace + "/" + pod.Name, Subjects: []inspect.Subject{}}
	for _, a := range all {
		if container == "" || a.Name == container {
			e.Subjects = append(e.Subjects, inspect.Subject{Container: a.Container, Rules: []inspect.Rule{}, Problems: a.Problems, Events: []history.Event{}})
		}
	}
	if len(e.Subjects) == 0 {
		return nil, fmt.Errorf("pod %s/%s has no container %q", pod.Namespace, pod.Name, container)
	}
	return e, nil
}
