package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/plugin/claims"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// Limits of the pods of a simulation. A kubelet has a few hundred, a cluster has up to
// 150,000 (Kubernetes, "Considerations for large clusters").
const (
	mostPods  = 4096 // of a node
	mostInAll = 150_000
)

// Objects are pods, nodes, and the annotations of namespaces.
type Objects struct {
	Pods []Pod
	// Nodes are those in the files, in their order.
	Nodes []Member
	// Namespaces holds the annotations of each known namespace.
	Namespaces map[string]map[string]string
	// Limits are the LimitRanges of each namespace. Saved pods have their defaults already.
	Limits map[string][]corev1.LimitRange
	// Claims are the objects of resource.k8s.io.
	Claims claims.Objects
	// Notes name the objects that were left out, with the reason.
	Notes []string
	// Coverage has the objects of all files.
	Coverage manifest.Coverage

	places *places // of [Objects.On]
	node   string  // of which On returned the objects
}

// Pod is a pod that a node may be given. It is not changed.
type Pod struct {
	// UID is the UID of its sandbox, or the pod's name if the pod is in no cluster yet.
	UID  string
	Spec *corev1.Pod
	// Node is where it was saved, empty for one of a manifest; Began when it came there,
	// in a form that can be compared.
	Node, Began string
	// PerNode is the namespace/name of the DaemonSet that the pod is of. Each node has such a pod.
	PerNode string
	kind    string // of the workload that it is of; Pod for one of its own
	saved   bool   // with a UID
}

// Name is the pod's name in full: namespace/name.
func (p *Pod) Name() string { return p.Spec.Namespace + "/" + p.Spec.Name }

// known holds the fields of an object outside its pod spec.
type known struct {
	Metadata struct {
		UID          string `json:"uid"`
		Created      string `json:"creationTimestamp"`
		GenerateName string `json:"generateName"`
		Owners       []struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
		Start string `json:"startTime"`
		// Claims are the names of the claims of templates.
		Claims []corev1.PodResourceClaimStatus `json:"resourceClaimStatuses"`
	} `json:"status"`
}

// errTooMany ends the reading of a file.
var errTooMany = errors.New("more than 150000 pods; a cluster has fewer")

// Read adds the objects of a YAML or JSON file, also those in Lists: pods, workloads, nodes
// and namespaces. A workload has as many pods as it requests, and a DaemonSet has one.
// Objects without a namespace get the given one. Read returns an error for each object that
// it cannot read, and reads the others. File is the name in Coverage.
func (o *Objects) Read(file string, data []byte, namespace string) []error {
	var errs []error
	empty := true
	manifest.Each(data, func(objects []manifest.Object, bad []error) bool {
		errs = append(errs, bad...)
		empty = empty && len(objects)+len(bad) == 0
		for i := range objects {
			object := &objects[i]
			isRead := object.Pod != nil || claims.Reads(object) || object.APIVersion == "v1" && slices.Contains([]string{"Namespace", "LimitRange", "Node"}, object.Kind)
			err := o.add(object, namespace)
			if err == nil {
				o.Coverage.AddObject(file, object, isRead)
				continue
			}
			errs = append(errs, fmt.Errorf("line %d: %s/%s: %w", object.Line(), object.Kind, object.Name, err))
			if errors.Is(err, errTooMany) {
				return false
			}
		}
		return true
	})
	if empty {
		o.Coverage.Skip("empty file", file)
	}
	return errs
}

func (o *Objects) add(object *manifest.Object, namespace string) error {
	if object.Kind == "Namespace" && object.APIVersion == "v1" {
		if o.Namespaces == nil {
			o.Namespaces = make(map[string]map[string]string)
		}
		o.Namespaces[object.Name] = object.Annotations
		return nil
	}
	if object.Kind == "LimitRange" && object.APIVersion == "v1" {
		var l corev1.LimitRange
		if err := object.Decode(&l); err != nil {
			return err
		}
		if o.Limits == nil {
			o.Limits = make(map[string][]corev1.LimitRange)
		}
		in := cmp.Or(object.Namespace, namespace)
		o.Limits[in] = append(o.Limits[in], l)
		return nil
	}
	if object.Kind == "Node" && object.APIVersion == "v1" {
		return o.addNode(object)
	}
	if claims.Reads(object) {
		return o.Claims.Add(object, namespace)
	}
	if object.Pod == nil {
		return nil
	}
	var k known
	kind := object.Kind
	if object.Shaped {
		kind = "Shaped" // nothing is known about its other fields
	} else if err := object.Decode(&k); err != nil {
		return err
	}
	base := object.Pod.DeepCopy()
	base.Namespace = cmp.Or(object.Namespace, namespace)
	if kind == "Pod" {
		base.Name = cmp.Or(object.Name, k.Metadata.GenerateName+"0")
		base.Status.ResourceClaimStatuses = k.Status.Claims
		return o.push(podOf(base, &k))
	}
	count, err := object.Replicas()
	switch {
	case kind == "PodTemplate":
		return nil // a template makes no pods
	case err != nil:
		return err
	case count > mostInAll:
		return fmt.Errorf("%d pods; want 0-%d", count, mostInAll)
	}
	for i := range count {
		replica := *base
		replica.Name = fmt.Sprintf("%s-%d", object.Name, i)
		if object.Shaped { // it can have several templates
			replica.Name = object.Name + "." + strings.TrimSuffix(object.PodPath, ".")
		}
		p := podOf(&replica, &known{})
		p.kind, p.saved = kind, k.Metadata.UID != ""
		if kind == daemonSet {
			p.PerNode = base.Namespace + "/" + object.Name
		}
		if err := o.push(p); err != nil {
			return err
		}
	}
	return nil
}

// daemonSet is the kind of workloads that have a pod on each node.
const daemonSet = "DaemonSet"

// Annotations of mirror pods: the kubelet writes them for a pod of a manifest on the node.
// The hash is the UID of the running pod.
const (
	mirrorKey = "kubernetes.io/config.mirror"
	hashKey   = "kubernetes.io/config.hash"
)

func podOf(spec *corev1.Pod, k *known) Pod {
	p := Pod{Spec: spec, UID: k.Metadata.UID, Node: k.Spec.NodeName, Began: cmp.Or(k.Status.Start, k.Metadata.Created), kind: "Pod", saved: k.Metadata.UID != ""}
	for _, owner := range k.Metadata.Owners {
		if owner.Kind == daemonSet {
			p.PerNode = spec.Namespace + "/" + owner.Name
		}
	}
	switch {
	case spec.Annotations[mirrorKey] != "":
		p.UID = cmp.Or(spec.Annotations[hashKey], p.UID)
	case p.UID == "":
		p.UID = p.Name()
	}
	if k.Status.Phase == string(corev1.PodSucceeded) || k.Status.Phase == string(corev1.PodFailed) {
		p.kind = "" // it is over
	}
	return p
}

func (o *Objects) push(p Pod) error {
	switch {
	case p.kind == "":
		return nil
	case len(o.Pods) == mostInAll:
		return errTooMany
	case len(p.Spec.Spec.Containers) == 0:
		return errors.New("no containers; want a pod's spec")
	}
	names := make(map[string]bool)
	for _, c := range slices.Concat(p.Spec.Spec.InitContainers, p.Spec.Spec.Containers) {
		if names[c.Name] || c.Name == "" {
			return fmt.Errorf("container %q occurs twice, or has no name", c.Name)
		}
		names[c.Name] = true
	}
	o.Pods = append(o.Pods, p)
	return nil
}

// order keeps the pods of a node, in the order of their creation, and then the pods of manifests.
func (o *Objects) order() error {
	o.drop("saved pods that are on no node yet are left out", func(p Pod) bool { return p.Node == "" && p.saved && p.kind == "Pod" })
	o.dropOwned()
	if len(o.Pods) > mostPods {
		return fmt.Errorf("%d pods; one node has at most %d", len(o.Pods), mostPods)
	}
	return o.arrange()
}

// dropOwned removes the pods of saved workloads if the files hold the pods themselves.
func (o *Objects) dropOwned() {
	if slices.ContainsFunc(o.Pods, func(p Pod) bool { return p.saved && p.kind == "Pod" }) {
		o.drop("pods of saved workloads are left out, because the files hold their pods", func(p Pod) bool { return p.kind != "Pod" && p.saved })
	}
}

// drop replaces the pods by a copy without some pods, and notes their number.
func (o *Objects) drop(note string, is func(Pod) bool) {
	all := len(o.Pods)
	o.Pods = slices.DeleteFunc(slices.Clone(o.Pods), is)
	if dropped := all - len(o.Pods); dropped > 0 {
		o.Notes = append(o.Notes, fmt.Sprintf("%s: %d", note, dropped))
	}
}

// arrange sorts the pods by creation, saved ones first, and applies LimitRanges to the others.
func (o *Objects) arrange() error {
	slices.SortStableFunc(o.Pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Began, b.Began))
	})
	names := make(map[string]bool)
	for i := range o.Pods {
		p := &o.Pods[i]
		if names[p.Name()] || names[p.UID] {
			return fmt.Errorf("pod %s occurs twice; remove one of the two objects", p.Name())
		}
		names[p.Name()], names[p.UID] = true, true
		if !p.saved {
			p.Spec = admission.WithLimitRanges(p.Spec, o.Limits[p.Spec.Namespace])
		}
	}
	return nil
}

// rank puts saved pods first.
func rank(p Pod) int {
	if p.Node != "" {
		return 0
	}
	return 1
}

// some are a few names, for an error.
func some(names []string) string {
	const few = 8
	if len(names) > few {
		return strings.Join(names[:few], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}
