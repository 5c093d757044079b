package adopt

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/plugin/claims"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// Cluster holds the objects of a cluster.
type Cluster struct {
	Pods []*corev1.Pod
	// Namespaces are the annotations of namespaces. A namespace without an entry is
	// unknown.
	Namespaces map[string]map[string]string
	// Claims are the objects of resource.k8s.io. They decide which containers run on CPUs of claims.
	Claims claims.Objects
	// Coverage has the objects of all files.
	Coverage manifest.Coverage
	// owners are the owners of ReplicaSets and Jobs.
	owners map[object]object
}

type object struct{ kind, namespace, name string }

// Read adds the objects of a list in JSON, as kubectl get -o json prints it: pods,
// namespaces, replicasets, jobs and the claims of resource.k8s.io; others do not matter. The error names the item. File is the
// name in Coverage.
func (c *Cluster) Read(file string, data []byte) error {
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("no JSON list: %w; make it with kubectl get pods,namespaces,replicasets,jobs -A -o json", err)
	}
	kind := ""
	switch list.Kind {
	case "List":
	case "PodList": // its items state no kind
		kind = "Pod"
	default:
		return fmt.Errorf("kind %q is no list of pods; make it with kubectl get pods,namespaces,replicasets,jobs -A -o json", list.Kind)
	}
	for i, item := range list.Items {
		if bytes.Equal(item, []byte("null")) {
			return fmt.Errorf("items[%d]: null; remove it", i)
		}
		if err := c.add(item, kind, fmt.Sprintf("%s: items[%d]", file, i)); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	if len(list.Items) == 0 {
		c.Coverage.Skip("empty list", file)
	}
	return nil
}

// addClaim adds an object of resource.k8s.io, and reports whether it is one. A pod with a claim that cannot be read
// gets a warning.
func (c *Cluster) addClaim(item []byte) bool {
	objects, _ := manifest.Objects(item)
	if len(objects) != 1 || !claims.Reads(&objects[0]) {
		return false
	}
	_ = c.Claims.Add(&objects[0], metav1.NamespaceDefault)
	return true
}

// add adds an object. Place is its name in Coverage.
func (c *Cluster) add(item []byte, kind, place string) error {
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(item, &meta); err != nil {
		return err
	}
	switch kind = cmp.Or(kind, meta.Kind); kind {
	case "":
		return errors.New("no kind; print it with kubectl get -o json")
	case "Pod":
		pod := &corev1.Pod{}
		if err := json.Unmarshal(item, pod); err != nil {
			return fmt.Errorf("%s/%s: %w", meta.Namespace, meta.Name, err)
		}
		c.Pods = append(c.Pods, pod)
	case "Namespace":
		if c.Namespaces == nil {
			c.Namespaces = map[string]map[string]string{}
		}
		c.Namespaces[meta.Name] = meta.Annotations
	default:
		if owner := metav1.GetControllerOf(&meta); owner != nil {
			if c.owners == nil {
				c.owners = map[object]object{}
			}
			c.owners[object{kind, meta.Namespace, meta.Name}] = object{owner.Kind, meta.Namespace, owner.Name}
		}
		if kind != "ReplicaSet" && kind != "Job" && !c.addClaim(item) {
			c.Coverage.Skip(kind, place)
			return nil
		}
	}
	c.Coverage.Read(kind)
	return nil
}
