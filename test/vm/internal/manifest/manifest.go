// Package manifest makes manifests of static pods for the kubelet of a test machine.
package manifest

import (
	"fmt"
	"maps"

	"go.yaml.in/yaml/v3"
)

// Image is the test workload, which every node has.
const Image = "localhost/cpupoold/work:1"

// Pod is a static pod.
type Pod struct {
	Name, Namespace string
	Annotations     map[string]string
	Init            []Container // init containers
	Containers      []Container
	Volumes         []map[string]any
	// More holds further fields of the spec, such as resources.
	More map[string]any
}

// Container runs the test workload.
type Container struct {
	Name string
	// CPU and Memory are requests in the notation of Kubernetes. Memory needs CPU.
	CPU, Memory string
	Limited     bool // the requests are limits too
	// Extra are further resources, such as devices and hugepages, as requests and limits.
	Extra map[string]string
	// Args are the arguments of the workload; the default is "pause".
	Args []string
	// More are further fields of the container, such as env and volumeMounts.
	More map[string]any
}

// resources returns the container's resources, or nil without requests.
func (c Container) resources() map[string]any {
	requests, limits := make(map[string]string), maps.Clone(c.Extra)
	if c.CPU != "" {
		requests["cpu"], requests["memory"] = c.CPU, c.Memory
	}
	maps.Copy(requests, c.Extra)
	if c.Limited {
		limits = requests
	}
	all := make(map[string]any)
	for name, amounts := range map[string]map[string]string{"requests": requests, "limits": limits} {
		if len(amounts) > 0 {
			all[name] = amounts
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

type object = map[string]any

// encode returns containers as the kubelet reads them.
func encode(containers []Container) (all []object) {
	for _, c := range containers {
		container := object{"name": c.Name, "image": Image, "imagePullPolicy": "Never", "args": []string{"pause"}}
		if len(c.Args) > 0 {
			container["args"] = c.Args
		}
		if resources := c.resources(); resources != nil {
			container["resources"] = resources
		}
		maps.Copy(container, c.More)
		all = append(all, container)
	}
	return all
}

// YAML returns the pod as the kubelet reads it.
func (p Pod) YAML() ([]byte, error) {
	metadata := object{"name": p.Name, "namespace": p.Namespace}
	if len(p.Annotations) > 0 {
		metadata["annotations"] = p.Annotations
	}
	spec := object{
		"terminationGracePeriodSeconds": 1,
		"hostNetwork":                   true, // a separate network costs an emulated node seconds
		"enableServiceLinks":            false,
		"containers":                    encode(p.Containers),
	}
	if len(p.Init) > 0 {
		spec["initContainers"] = encode(p.Init)
	}
	if len(p.Volumes) > 0 {
		spec["volumes"] = p.Volumes
	}
	maps.Copy(spec, p.More)
	out, err := yaml.Marshal(object{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
	if err != nil {
		return nil, fmt.Errorf("encode manifest of pod %s: %w", p.Name, err)
	}
	return out, nil
}

// Management returns the annotations of a pod of workload type "management". Shares are CFS shares by container, as they are written
// in JSON: they need not make sense.
func Management(shares map[string]string) map[string]string {
	annotations := map[string]string{"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`}
	for container, value := range shares {
		annotations["resources.workload.openshift.io/"+container] = `{"cpushares":` + value + `}`
	}
	return annotations
}
