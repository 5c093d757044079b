package installation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
)

const namespace = "cpupoold"

// condition is the node condition of a daemon (internal/node/nodestatus.ConditionType).
const condition corev1.NodeConditionType = "CPUPoolsReady"

// configurationRefused is the reason of the condition if the daemon uses an earlier configuration, because the
// installed one has faults (internal/node/clusterstate).
const configurationRefused = "ConfigurationRefused"

// variable is a variable that the webhook removes from each new pod, whatever its switches
// are (internal/admission.RemoveVariables).
const variable = "OPENSHIFT_SHARED_CPUS"

const interval = 3 * time.Second

// Options configures a check.
type Options struct {
	Apps appsclient.AppsV1Interface
	Core coreclient.CoreV1Interface
	// DaemonSets are the names of the DaemonSets of the daemon.
	DaemonSets []string
	// Conditions are the names of the DaemonSets whose nodes report the condition CPUPoolsReady.
	Conditions []string
	// ReviewIn is a namespace whose pods the webhook reviews. Empty: there is no webhook.
	ReviewIn string
}

// Wait checks until all is well or ctx ends. The error then holds the last problems.
func Wait(ctx context.Context, o Options) error {
	var last error
	_ = wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		err := o.check(ctx)
		if err == nil || last == nil || ctx.Err() == nil { // otherwise the end of ctx is the reason
			last = err
		}
		return err == nil, nil
	})
	return last
}

func (o Options) check(ctx context.Context) error {
	var problems []error
	for _, name := range o.DaemonSets {
		set, err := o.Apps.DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			problems = append(problems, fmt.Errorf("read DaemonSet %s/%s: %w", namespace, name, err))
			continue
		}
		problems = append(problems, ready(set))
		if slices.Contains(o.Conditions, name) {
			problems = append(problems, o.nodes(ctx, set))
		}
	}
	if o.ReviewIn != "" {
		problems = append(problems, o.reviewed(ctx))
	}
	return errors.Join(problems...)
}

// ready returns an error unless each node of a DaemonSet has a ready pod of its last version.
func ready(set *appsv1.DaemonSet) error {
	s := set.Status
	switch {
	case s.ObservedGeneration < set.Generation:
		return fmt.Errorf("DaemonSet %s/%s: no controller has seen its last change", namespace, set.Name)
	case s.DesiredNumberScheduled == 0:
		return fmt.Errorf("DaemonSet %s/%s: no node matches its nodeSelector and affinity; compare them with the labels of the nodes", namespace, set.Name)
	case s.UpdatedNumberScheduled < s.DesiredNumberScheduled, s.NumberReady < s.DesiredNumberScheduled:
		return fmt.Errorf("DaemonSet %s/%s: of %d pods, %d are of its last version and %d are ready; run kubectl --namespace %s get pods --output wide",
			namespace, set.Name, s.DesiredNumberScheduled, s.UpdatedNumberScheduled, s.NumberReady, namespace)
	}
	return nil
}

// nodes checks the condition of each node with a pod of a DaemonSet.
func (o Options) nodes(ctx context.Context, set *appsv1.DaemonSet) error {
	pods, err := o.Core.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(set.Spec.Selector)})
	if err != nil {
		return fmt.Errorf("list pods of DaemonSet %s/%s: %w", namespace, set.Name, err)
	}
	var problems []error
	for i := range pods.Items {
		name := pods.Items[i].Spec.NodeName
		if name == "" {
			continue // ready counts it
		}
		node, err := o.Core.Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			problems = append(problems, fmt.Errorf("read node %s: %w", name, err))
			continue
		}
		problems = append(problems, poolsReady(node))
	}
	return errors.Join(problems...)
}

// poolsReady returns an error unless a node has the condition with the status True, and its
// daemon uses the installed configuration.
func poolsReady(node *corev1.Node) error {
	for _, c := range node.Status.Conditions {
		if c.Type == condition && c.Status == corev1.ConditionTrue && c.Reason != configurationRefused {
			return nil
		}
		if c.Type == condition {
			return fmt.Errorf("node %s: condition %s is %s: %s: %s", node.Name, condition, c.Status, c.Reason, c.Message)
		}
	}
	return fmt.Errorf("node %s: it has no condition %s; read the log of the daemon there", node.Name, condition)
}

// reviewed creates a pod with dryRun, and returns an error unless the webhook changes it. The
// API server stores no such pod.
func (o Options) reviewed(ctx context.Context) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "cpupool-webhook-test-", Namespace: o.ReviewIn},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false),
			SecurityContext:              &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name:            "test",
				Image:           "test",
				Env:             []corev1.EnvVar{{Name: variable, Value: "0"}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
	made, err := o.Core.Pods(o.ReviewIn).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return fmt.Errorf("create a pod in namespace %s with dryRun: %w", o.ReviewIn, err)
	}
	for _, v := range made.Spec.Containers[0].Env {
		if v.Name == variable {
			return fmt.Errorf("namespace %s: the API server created a pod with dryRun, and cpupool-webhook did not change it; "+
				"test in a namespace that the MutatingWebhookConfiguration cpupool-webhook does not exempt", o.ReviewIn)
		}
	}
	return nil
}
