package guestnode

import (
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// Manifests is the kubelet's directory of static pods.
const Manifests = "/etc/kubernetes/manifests"

// Apply makes the kubelet run static pods, and does not wait for them. It appends the test's name to their names. Without that, the
// kubelet delays a pod by 10 seconds and more if it has the name of a pod that has just ended.
func (n *Node) Apply(pods ...manifest.Pod) {
	n.Helper()
	for _, p := range pods {
		file := p.Name
		p.Name += n.suffix()
		text, err := p.YAML()
		if err != nil {
			n.Fatal(err)
		}
		n.Write(filepath.Join(Manifests, file+".yaml"), string(text))
	}
}

// suffix is the text that Apply adds to the names of pods.
func (n *Node) suffix() string {
	h := fnv.New32a()
	_, _ = io.WriteString(h, n.Name())
	return fmt.Sprintf("-%08x", h.Sum32())
}

// FullName is the name under which runtime, kubelet and daemon know a static pod: the kubelet appends the node's to that in the manifest.
func (n *Node) FullName(pod string) string { return pod + n.suffix() + "-node" }

// ShortName is the name with which a pod was given to Apply.
func (n *Node) ShortName(pod string) string {
	return strings.TrimSuffix(strings.TrimSuffix(pod, "-node"), n.suffix())
}

// Withdraw has the kubelet end static pods, and waits until their sandboxes have ended.
func (n *Node) Withdraw(names ...string) {
	n.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(Manifests, name+".yaml")); err != nil {
			n.Fatal(err)
		}
	}
	n.ended(func(p cri.Pod) bool { return slices.Contains(names, n.ShortName(p.Name)) })
}

// WithdrawAll has the kubelet end all static pods, and waits until no sandbox is left.
func (n *Node) WithdrawAll() {
	n.Helper()
	files, err := filepath.Glob(Manifests + "/*")
	if err != nil {
		n.Fatal(err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			n.Fatal(err)
		}
	}
	n.ended(func(cri.Pod) bool { return true })
}

// Ready returns nil if a pod's sandbox is ready.
func (n *Node) Ready(pod string) error {
	pods, _, err := n.list()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(pods, func(p cri.Pod) bool { return p.Ready && n.ShortName(p.Name) == pod }) {
		return fmt.Errorf("pod %s has no sandbox", pod)
	}
	return nil
}

// ended waits until none of certain pods has a sandbox.
func (n *Node) ended(which func(cri.Pod) bool) {
	n.Helper()
	n.Eventually("end of pods", func() error {
		pods, _, err := n.list()
		if err != nil {
			return err
		}
		for _, p := range pods {
			if p.Ready && which(p) {
				return fmt.Errorf("pod %s/%s is still there", p.Namespace, p.Name)
			}
		}
		return nil
	})
}

func (n *Node) list() ([]cri.Pod, []cri.Container, error) {
	ctx, cancel := requestContext()
	defer cancel()
	return n.Client.List(ctx)
}

// Container is the node's state of one running container.
type Container struct {
	cri.Container
	cgroup.State

	Pod cri.Pod
}

// Find returns the running container of a pod, by the name with which it was given to Apply, or in its manifest.
func (n *Node) Find(pod, name string) (Container, error) {
	all, err := n.containers(func(p cri.Pod, c cri.Container) bool { return p.Ready && n.ShortName(p.Name) == pod && c.Name == name })
	if err != nil {
		return Container{}, err
	}
	if len(all) == 0 {
		return Container{}, fmt.Errorf("pod %s has no running container %s", pod, name)
	}
	return all[0], nil
}

// Containers are all containers that run.
func (n *Node) Containers() ([]Container, error) {
	return n.containers(func(cri.Pod, cri.Container) bool { return true })
}

func (n *Node) containers(which func(cri.Pod, cri.Container) bool) ([]Container, error) {
	pods, all, err := n.list()
	if err != nil {
		return nil, err
	}
	var found []Container
	for _, c := range all {
		i := slices.IndexFunc(pods, func(p cri.Pod) bool { return p.ID == c.PodID })
		if c.State != cri.Running || i < 0 || !which(pods[i], c) {
			continue
		}
		full, err := n.status(c.ID)
		if err != nil {
			continue // it has ended since the listing
		}
		path, err := cgroup.ContainerPath(full.CgroupsPath, n.Runtime.Driver)
		if err != nil {
			return nil, err
		}
		st, err := n.FS.Read(path)
		if err != nil {
			continue
		}
		found = append(found, Container{Container: full, State: st, Pod: pods[i]})
	}
	return found, nil
}

func (n *Node) status(id string) (cri.Container, error) {
	ctx, cancel := requestContext()
	defer cancel()
	return n.Client.ContainerStatus(ctx, id)
}
