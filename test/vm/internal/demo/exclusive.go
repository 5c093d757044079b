package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// Pods with exclusive CPUs, in addition to the pods of manifest.EveryKind and the unit. Large takes three of the four cores that the
// guaranteed pool has on the second NUMA node. Of the other cores a single CPU is free then, so late has to wait. When exclusive ends, its
// core on the other node becomes free, too.
const (
	large = "large"
	late  = "late"
)

// exclusive returns a pod with one container and so many exclusive CPUs.
func exclusive(name, cpus string) manifest.Pod {
	return manifest.Pod{
		Name: name, Namespace: "default",
		Containers: []manifest.Container{{Name: "app", CPU: cpus, Memory: "20Mi", Limited: true}},
	}
}

// without returns pods but the one of a name.
func without(pods []manifest.Pod, name string) []manifest.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p manifest.Pod) bool { return p.Name == name })
}

// find returns the row of the only container of a static pod.
func find(rows []row, pod string) (row, error) {
	for _, r := range rows {
		if r.pod == "default/"+pod+nodeSuffix && r.Name == "app" {
			return r, nil
		}
	}
	return row{}, fmt.Errorf("pod %s has no running container", pod)
}

// aligned returns an error unless the kernel has a pod's container on exclusive CPUs that are whole cores of one NUMA node.
func aligned(rows []row, pod string) error {
	r, err := find(rows, pod)
	if err != nil {
		return err
	}
	if cpus := r.kernel.Effective.Len(); !r.Exclusive || r.kernel.nodes.Len() != 1 || r.kernel.cores != cpus/threads {
		return fmt.Errorf("%s; want whole cores of one node, its own", r)
	}
	return nil
}

// String returns the container's CPUs in the kernel.
func (r row) String() string {
	return fmt.Sprintf("%s/%s runs on %s: whole cores: %d, NUMA nodes: %s", r.pod, r.Name, r.kernel.Effective, r.kernel.cores, r.kernel.nodes)
}

// showInside shows the CPUs that a pod and the unit read about themselves, and compares them with the
// kernel.
func (s *scene) showInside(ctx context.Context, rows []row) error {
	for _, r := range rows {
		var err error
		switch {
		case r.pod == "default/"+large+nodeSuffix && r.Name == "app":
			want := fmt.Sprintf(`"cpus":"%s","exclusive":true,"nodes":"%s"`, r.kernel.Effective, r.kernel.nodes)
			err = s.transcript(ctx, want, "cat", "/run/cpupoold/containers/"+r.uid+"/app.json")
		case r.pod == unit:
			want := fmt.Sprintf("CPUPOOL_CPUS=%s CPUPOOL_NODES=%s", r.kernel.Effective, r.kernel.nodes)
			err = s.transcript(ctx, want, "journalctl", "--no-pager", "--output=cat", "--identifier=sh", "--unit="+unit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// transcript runs a command in the node and shows it with its output, in which want must be.
func (s *scene) transcript(ctx context.Context, want string, cmd ...string) error {
	out, err := s.m.Run(ctx, cmd...)
	fmt.Fprintf(s.out, "\n$ %s\n%s", strings.Join(cmd, " "), out)
	if err != nil {
		return err
	}
	if !strings.Contains(string(out), want) {
		return fmt.Errorf("%q: no %s in its output", cmd, want)
	}
	return nil
}

// gather has two pods end: late gets the CPUs of the first, on both nodes, and moves to one of them when the second has made room. The demo ends
// with a live audit.
func (s *scene) gather(ctx context.Context, pods []manifest.Pod) error {
	s.next()
	pods = without(pods, "exclusive")
	if err := apply(ctx, s.m, pods); err != nil {
		return err
	}
	rows, err := s.agreed(ctx, pods)
	if err != nil {
		return err
	}
	moved, err := find(rows, late)
	if err != nil {
		return err
	}
	s.detail("%s", moved)
	s.next()
	pods = without(pods, large)
	if err := s.settle(ctx, pods); err != nil {
		return err
	}
	if err := s.transcript(ctx, fmt.Sprintf("done: %s/%s", moved.pod, moved.Name), "cpupoold", "plan", "--defrag", "--apply"); err != nil {
		return err
	}
	if rows, err = s.agreed(ctx, pods); err != nil {
		return err
	}
	if moved, err = find(rows, late); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\n%s\n%s\n", moved, verdict(rows))
	if err := aligned(rows, late); err != nil {
		return err
	}
	return s.audit(ctx, rows)
}

// agreed is look with an error if the kernel differs from cpupoold's plan.
func (s *scene) agreed(ctx context.Context, pods []manifest.Pod) ([]row, error) {
	rows, _, err := s.look(ctx, pods)
	if err != nil {
		return nil, err
	}
	return rows, disagreement(rows)
}
