package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

type target struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// metric is a metric of a HorizontalPodAutoscaler that a container's requests scale.
type metric struct {
	Name   string `json:"name"`
	Target struct {
		Utilization *int `json:"averageUtilization"`
	} `json:"target"`
}

// autoscaler holds the fields of all kinds of autoscalers that decide here.
type autoscaler struct {
	Spec struct {
		ScaleTarget target `json:"scaleTargetRef"`
		Target      target `json:"targetRef"`
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
			Containers []struct {
				Name      string    `json:"containerName"`
				Mode      string    `json:"mode"`
				Resources *[]string `json:"controlledResources"`
			} `json:"containerPolicies"`
		} `json:"resourcePolicy"`
	} `json:"spec"`
}

// kindOf returns the group and the kind of an object.
func kindOf(o *manifest.Object) string {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	return group + " " + o.Kind
}

// isAutoscaler reports whether an object is an autoscaler of a known kind.
func isAutoscaler(o *manifest.Object) bool {
	return slices.Contains([]string{"autoscaling HorizontalPodAutoscaler", "keda.sh ScaledObject", "autoscaling.k8s.io VerticalPodAutoscaler"}, kindOf(o))
}

// checkAutoscaler finds an autoscaler that needs or sets the CPU requests of pods in a management
// pool: the webhook moves these requests to another resource.
func (l *linter) checkAutoscaler(files []File) {
	var a autoscaler
	kind := kindOf(&l.object)
	if !l.read(&a) {
		return
	}
	to, does, field, remedy := a.Spec.ScaleTarget, "", "metrics", "scale on a metric other than the utilization of CPU"
	switch {
	case kind == "autoscaling HorizontalPodAutoscaler" && a.usesUtilization():
		does = "scales on the utilization of CPU"
	case kind == "keda.sh ScaledObject" && a.hasCPUTrigger():
		does, field = "scales on the utilization of CPU", "triggers"
		to.Kind = cmp.Or(to.Kind, "Deployment")
	case kind == "autoscaling.k8s.io VerticalPodAutoscaler" && a.Spec.Update.Mode != "Off":
		to, does, field, remedy = a.Spec.Target, "sets the CPU request", "resourcePolicy", "write controlledResources: [memory] for all containers"
	default:
		return
	}
	for _, file := range files {
		for i := range file.Objects {
			if o := &file.Objects[i]; l.isTarget(o, to) && (field != "resourcePolicy" || a.setsCPU(o.Pod)) && l.managed(o) {
				l.find(l.object.Line("spec", field), fmt.Sprintf("%s %s %s of %s %s, whose pods run in the management pool and have no CPU request",
					l.object.Kind, l.object.Name, does, to.Kind, to.Name), remedy)
				return
			}
		}
	}
}

// isTarget reports whether an object of a file makes the pods that the present object scales.
func (l *linter) isTarget(o *manifest.Object, to target) bool {
	return o.Pod != nil && o.Kind == to.Kind && o.Name == to.Name && cmp.Or(o.Namespace, l.Namespace) == l.namespace()
}

// usesUtilization reports whether a HorizontalPodAutoscaler has a target for the utilization of
// CPU. Without any metric, the API server adds one.
func (a *autoscaler) usesUtilization() bool {
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

func (a *autoscaler) hasCPUTrigger() bool {
	for _, t := range a.Spec.Triggers {
		if t.Type == "cpu" && t.MetricType != "AverageValue" {
			return true
		}
	}
	return false
}

// setsCPU reports whether a VerticalPodAutoscaler sets the CPU request of a container of a pod. It
// sets CPU and memory of a container without a policy of its own, if there is no policy for "*".
func (a *autoscaler) setsCPU(pod *corev1.Pod) bool {
	for _, c := range containers(pod) {
		sets := true
		for _, name := range []string{"*", c.Name} {
			for _, p := range a.Spec.Policy.Containers {
				if p.Name == name {
					sets = p.Mode != "Off" && (p.Resources == nil || slices.Contains(*p.Resources, "cpu"))
				}
			}
		}
		if sets {
			return true
		}
	}
	return false
}
