package cgroup

import (
	"errors"
	"fmt"
)

// Verify compares the kernel's state with the target, after the writes. The kernel
// accepts requests that it does not grant: without an error a cgroup runs on its
// parent's CPUs if the parent has no CPU of the request. The error names each
// difference and its likely cause; it is nil if the state matches t.
func Verify(t Target, s State) error {
	return errors.Join(
		verifyCPUs(t, s),
		verifyInner(t, s),
		verifyMems(t, s),
		verifyWeight(t, s),
		verifyQuota(t, s),
	)
}

func verifyCPUs(t Target, s State) error {
	switch {
	case t.CPUs.IsEmpty() || s.Effective.Equal(t.CPUs):
		return nil
	case t.Confines() && s.HasCPUSet && s.CPUs.Equal(t.CPUs):
		return nil // owners in partitions have the rest
	case !s.HasCPUSet:
		return fmt.Errorf("%s runs on CPUs %s, want %s: the parent does not enable the cpuset controller",
			s.Path, s.Effective, t.CPUs)
	case !s.CPUs.Equal(t.CPUs):
		return fmt.Errorf("%s runs on CPUs %s, want %s: cpuset.cpus is %q, another process wrote it",
			s.Path, s.Effective, t.CPUs, s.CPUs)
	case !t.CPUs.Overlaps(s.ParentEffective):
		return fmt.Errorf("%s runs on CPUs %s, want %s: %q has no CPU of them, so the kernel uses its set",
			s.Path, s.Effective, t.CPUs, s.Path.Parent())
	case s.Effective.IsSubsetOf(t.CPUs):
		return fmt.Errorf("%s runs on CPUs %s, want %s: the rest is offline, in a partition, or not in %q (%s)",
			s.Path, s.Effective, t.CPUs, s.Path.Parent(), s.ParentEffective)
	}
	return fmt.Errorf("%s runs on CPUs %s, want %s", s.Path, s.Effective, t.CPUs)
}

// verifyInner looks at the child in which crun keeps the processes: it cannot
// have more than the scope, but less.
func verifyInner(t Target, s State) error {
	if t.CPUs.IsEmpty() || s.Inner == nil || s.Inner.Effective.Equal(s.Effective) {
		return nil
	}
	return fmt.Errorf("%s runs on CPUs %s, its scope on %s: cpuset.cpus of the former is %q",
		s.Inner.Path, s.Inner.Effective, s.Effective, s.Inner.CPUs)
}

func verifyWeight(t Target, s State) error {
	switch {
	case t.Weight == 0 || s.Weight == t.Weight:
		return nil
	case !s.HasCPU:
		return fmt.Errorf("%s has no cpu.weight, want %d: the parent does not enable the cpu controller", s.Path, t.Weight)
	case s.Idle:
		return fmt.Errorf("%s has cpu.idle set, want cpu.weight %d: it is not changed", s.Path, t.Weight)
	}
	return fmt.Errorf("%s has cpu.weight %d, want %d", s.Path, s.Weight, t.Weight)
}
