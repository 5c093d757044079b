package daemon

import (
	"cmp"
	"errors"
	"path"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// pod starts a sandbox. cpus=N is the request of a Guaranteed pod. The pod is in the kubelet's
// system partition with system=yes, and requests the management pool with annotated=yes. With
// cgroup=missing the pause container has no cgroup, as with Kata Containers.
func (s *script) pod(name string, args map[string]string) error {
	spec := testnode.PodSpec{UID: name, Namespace: args["namespace"], Name: name, QoS: args["qos"], System: args["system"] == "yes"}
	if spec.Namespace == "" {
		spec.Namespace = "default"
	}
	if spec.QoS == "" {
		spec.QoS = "burstable"
	}
	if args["cpus"] != "" {
		spec.QoS = "guaranteed"
		total, err := resources(args)
		if err != nil {
			return err
		}
		spec.Resources = total
	}
	if args["annotated"] == "yes" {
		spec.Annotations = nodefixture.Management(nil)
	}
	id, err := s.Runtime.RunPod(spec)
	if err != nil {
		return err
	}
	s.names[id], s.ids[name] = name+"/pause", id
	if args["cgroup"] == "missing" {
		if err := s.Tree.Remove(s.Runtime.Cgroup(id)); err != nil {
			return err
		}
	}
	s.event(runtimeEvent{cri.Event{ContainerID: id, PodID: id, Kind: cri.ContainerCreated, At: s.now}})
	return nil
}

// systemPartition makes the root of the kubelet's system partition, and writes its cpuset.
func (s *script) systemPartition(cpus string) error {
	above, root := "kubepods.slice", "kubepods.slice/kubepods-system.slice"
	if s.Host().Driver == cgroup.DriverCgroupfs {
		above, root = "kubepods", "kubepods/system"
	}
	s.Tree.MkdirAll(root)
	for _, dir := range []string{"", above} {
		if err := s.Tree.Write(path.Join(dir, "cgroup.subtree_control"), "+cpu +cpuset"); err != nil {
			return err
		}
	}
	return s.Tree.Write(path.Join(root, "cpuset.cpus"), cpus)
}

// limit makes the machine a container with these CPUs.
func (s *script) limit(list string) error {
	cpus, err := cpuset.Parse(list)
	if err != nil {
		return err
	}
	s.Tree.SetLimit(cpus)
	return s.pollRoot()
}

// partition makes a cgroup of no container a partition of a type with CPUs, as systemd does for a
// unit with CPUSetPartition=. Type member ends it.
func (s *script) partition(name string, args map[string]string) error {
	at := cmp.Or(s.Runtime.Cgroup(s.ids[name]), name)
	if in := args["in"]; in != "" {
		at = s.Runtime.Cgroup(s.ids[in]) + "/" + name
	}
	s.Tree.MkdirAll(at)
	if cpus := args["cpus"]; cpus != "" {
		for dir := at; dir != "."; dir = path.Dir(dir) {
			if err := s.Tree.Write(path.Join(dir, cgroup.FileExclusive), cpus); err != nil {
				return err
			}
		}
	}
	if err := s.Tree.Write(path.Join(at, cgroup.FilePartition), args["type"]); err != nil {
		return err
	}
	if args["type"] == string(cgroup.MemberPartition) {
		if err := s.Tree.Write(path.Join(at, cgroup.FileExclusive), cgroup.ValueNone); err != nil {
			return err
		}
	}
	state, err := s.Tree.ReadFile(path.Join(at, cgroup.FilePartition), 4096)
	s.printf("%s is %s", name, strings.TrimSpace(string(state)))
	return errors.Join(err, s.pollRoot())
}

// pollRoot reads the root's CPUs, as the daemon does every ten seconds.
func (s *script) pollRoot() error {
	if s.loop == nil {
		return nil
	}
	return s.loop.watchers.usable.Read(s.loop.watchers.useCPUs)
}

func (s *script) begin(name string) error { return s.beginIn(name, "") }

// beginIn starts a container. With cgroup=missing (as with Kata Containers) or cgroup=empty (as
// with gVisor), no process runs in its cgroup.
func (s *script) beginIn(name, own string) error {
	s.settle()
	id := s.ids[name]
	if err := s.Runtime.StartContainer(id); err != nil {
		return err
	}
	if own != "" {
		if err := s.Tree.Remove(s.Runtime.Cgroup(id)); err != nil {
			return err
		}
	}
	if own == "empty" {
		s.Tree.MkdirAll(s.Runtime.Cgroup(id))
	}
	s.event(runtimeEvent{cri.Event{ContainerID: id, PodID: s.PodOf(id), Kind: cri.ContainerStarted, At: s.now}})
	return nil
}

// cgroup makes a cgroup with a process in the slice of a pod. The pod need not exist. SANDBOX
// in the name stands for the id of its sandbox.
func (s *script) cgroup(name, without string) error {
	pod, base, _ := strings.Cut(name, "/")
	id := s.ids[pod]
	slice := path.Dir(s.Runtime.Cgroup(id))
	if id == "" {
		slice = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + pod + ".slice"
	}
	s.cgroups[name] = slice + "/" + strings.ReplaceAll(base, "SANDBOX", id)
	s.Tree.MkdirAll(s.cgroups[name])
	if without != "" {
		if err := s.Tree.Write(slice+"/cgroup.subtree_control", "-"+without); err != nil {
			return err
		}
	}
	return s.Tree.Write(s.cgroups[name]+"/cgroup.procs", strconv.Itoa(900_000+len(s.cgroups)))
}
