// Package autoscaling finds autoscalers that need or set CPU requests. Pods in a management pool
// have no CPU request: the webhook moves it to another resource. Package lint checks manifests with it, and
// package review requests of the API server.
package autoscaling

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Target is a reference to the workload that an autoscaler scales.
type Target struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// metric is a metric of a HorizontalPodAutoscaler that a container's requests scale.
type metric struct {
	Name   string `json:"name"`
	Target struct {
		Utilization *int `json:"averageUtilization"`
	} `json:"target"`
}

type policy struct {
	Name      string    `json:"containerName"`
	Mode      string    `json:"mode"`
	Resources *[]string `json:"controlledResources"`
}

// Autoscaler holds the fields of all kinds of autoscalers that decide here.
type Autoscaler struct {
	Spec struct {
		ScaleTarget Target `json:"scaleTargetRef"`
		Target      Target `json:"targetRef"`
		// Metrics and Percentage are of HorizontalPodAutoscalers, Triggers of ScaledObjects.
		Metrics []struct {
			Resource  metric `json:"resource"`
			Container metric `json:"containerResource"`
		} `json:"metrics"`
		Percentage *int `json:"targetCPUUtilizationPercentage"`
		Triggers   []struct {
			Type       string `json:"type"`
			MetricType string `json:"metricType"`
		} `json:"triggers"`
		// Update and Policy are of VerticalPodAutoscalers.
		Update struct {
			Mode string `json:"updateMode"`
		} `json:"updatePolicy"`
		Policy struct {
			Containers []policy `json:"containerPolicies"`
		} `json:"resourcePolicy"`
	} `json:"spec"`
}

// The kinds of autoscalers.
const (
	horizontal = "HorizontalPodAutoscaler"
	scaled     = "ScaledObject"
	vertical   = "VerticalPodAutoscaler"
)

// Is reports whether objects of a group and a kind are autoscalers.
func Is(group, kind string) bool {
	return slices.Contains([]string{"autoscaling/" + horizontal, "keda.sh/" + scaled, "autoscaling.k8s.io/" + vertical}, group+"/"+kind)
}

// Use is the use of CPU requests by an autoscaler.
type Use struct {
	Target Target
	// Field is the field of the spec that decides it. Remedy is the change that ends it.
	Field, Remedy string

	does     string
	policies []policy // of a VerticalPodAutoscaler
	sets     bool
}

// Use returns how an autoscaler of a kind uses CPU requests, and false if it does not.
func (a *Autoscaler) Use(kind string) (Use, bool) {
	u := Use{Target: a.Spec.ScaleTarget, Remedy: "scale on a metric other than the utilization of CPU", does: "scales on the utilization of CPU"}
	switch {
	case kind == horizontal && a.usesUtilization():
		u.Field = "metrics"
	case kind == scaled && a.hasCPUTrigger():
		u.Field, u.Target.Kind = "triggers", cmp.Or(u.Target.Kind, "Deployment")
	case kind == vertical && a.Spec.Update.Mode != "Off":
		return Use{Target: a.Spec.Target, Field: "resourcePolicy", Remedy: "write controlledResources: [memory] for all containers",
			does: "sets the CPU request", policies: a.Spec.Policy.Containers, sets: true}, true
	default:
		return Use{}, false
	}
	return u, true
}

// Concerns reports whether an autoscaler uses the CPU request of a container that runs as long as
// its pod.
func (u *Use) Concerns(pod *corev1.Pod) bool {
	return !u.sets || slices.ContainsFunc(pod.Spec.Containers, u.setsCPU) || slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways && u.setsCPU(c)
	})
}

// Sentence states the use by an autoscaler whose target runs in a management pool.
func (u *Use) Sentence(kind, name string) string {
	return fmt.Sprintf("%s %s %s of %s %s, whose pods run in the management pool and have no CPU request", kind, name, u.does, u.Target.Kind, u.Target.Name)
}

// usesUtilization reports whether a HorizontalPodAutoscaler has a target for the utilization of
// CPU. Without any metric, the API server adds one.
func (a *Autoscaler) usesUtilization() bool {
	if len(a.Spec.Metrics) == 0 {
		return true
	}
	for _, m := range a.Spec.Metrics {
		for _, one := range []metric{m.Resource, m.Container} {
			if one.Name == "cpu" && one.Target.Utilization != nil {
				return true
			}
		}
	}
	return a.Spec.Percentage != nil
}

func (a *Autoscaler) hasCPUTrigger() bool {
	for _, t := range a.Spec.Triggers {
		if t.Type == "cpu" && t.MetricType != "AverageValue" {
			return true
		}
	}
	return false
}

// setsCPU reports whether a VerticalPodAutoscaler sets the CPU request of a container. It sets CPU
// and memory of a container without a policy of its own, if there is no policy for "*".
func (u *Use) setsCPU(container corev1.Container) bool {
	sets := true
	for _, name := range []string{"*", container.Name} {
		for _, p := range u.policies {
			if p.Name == name {
				sets = p.Mode != "Off" && (p.Resources == nil || slices.Contains(*p.Resources, "cpu"))
			}
		}
	}
	return sets
}
