package undo_test

import (
	"errors"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestCompare checks which values differ from the original, and which of them have the same
// effect.
func TestCompare(t *testing.T) {
	h := &hostenv.Host{Possible: cpuset.Range(0, 7), Nodes: cpuset.Range(0, 1)}
	all, some := cpuset.Range(0, 7), cpuset.Range(0, 3)
	for name, c := range map[string]struct {
		file, was         string
		is                cgroup.State
		failure           error
		differs, harmless bool
	}{
		"the original":              {file: cgroup.FileCPUs, was: "0-3", is: cgroup.State{CPUs: some}},
		"all CPUs, was empty":       {file: cgroup.FileCPUs, was: "", is: cgroup.State{CPUs: all}, differs: true, harmless: true},
		"empty, was all CPUs":       {file: cgroup.FileCPUs, was: "0-7", is: cgroup.State{}, differs: true, harmless: true},
		"some CPUs, was empty":      {file: cgroup.FileCPUs, was: "", is: cgroup.State{CPUs: some}, differs: true},
		"empty, was some CPUs":      {file: cgroup.FileCPUs, was: "0-3", is: cgroup.State{}, differs: true},
		"all CPUs, was some":        {file: cgroup.FileCPUs, was: "0-3", is: cgroup.State{CPUs: all}, differs: true},
		"an unreadable original":    {file: cgroup.FileCPUs, was: "x", is: cgroup.State{CPUs: all}, differs: true},
		"all nodes, was empty":      {file: cgroup.FileMems, was: "", is: cgroup.State{Mems: cpuset.Range(0, 1)}, differs: true, harmless: true},
		"empty, was all nodes":      {file: cgroup.FileMems, was: "0-1", is: cgroup.State{}, differs: true, harmless: true},
		"one node, was empty":       {file: cgroup.FileMems, was: "", is: cgroup.State{Mems: cpuset.Of(0)}, differs: true},
		"another weight":            {file: cgroup.FileWeight, was: "100", is: cgroup.State{Weight: 79}, differs: true},
		"the original, not written": {file: cgroup.FileCPUs, was: "0-3", is: cgroup.State{CPUs: some}, failure: errors.New("busy"), differs: true},
	} {
		d, differs := undo.Original{File: c.file, Value: c.was}.Difference(h, c.is, c.failure)
		if differs != c.differs || d.Harmless != c.harmless || differs == (d.Reason == "") {
			t.Errorf("%s: differs %t, %+v; want %t, harmless %t, and a reason for a difference", name, differs, d, c.differs, c.harmless)
		}
	}
}
