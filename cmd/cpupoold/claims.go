package main

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
)

func deviceTable(all []inspect.ClaimDevice) *layout.Table {
	t := layout.NewTable("DEVICE", "NUMA NODE", "CPUS", "CAPACITY", "FREE", "STEP")
	for _, d := range all {
		t.Row(d.Name, strconv.Itoa(d.Node), d.CPUs.String(), strconv.Itoa(d.CPUs.Len()), inspect.Sized(d.Free), strconv.Itoa(d.Step))
	}
	return t
}

// claimTable has a row for each part of a claim.
func claimTable(all []inspect.Claim) *layout.Table {
	t := layout.NewTable("CLAIM", "UID", "POD", "DEVICE", "CPUS", "OFFLINE", "CONTAINERS", "REASON")
	for _, c := range all {
		for _, p := range c.Parts {
			t.Row(c.Full(), shortUID(c.UID), cmp.Or(c.Pod, c.PodUID), p.Device, p.CPUs.Difference(c.Away).String(), p.CPUs.Intersection(c.Away).String(), strings.Join(c.Containers, ", "), c.Code)
		}
	}
	return t
}

// shortUID returns the first characters of a UID. Few claims of a node have them in common.
func shortUID(uid string) string {
	r := []rune(uid)
	return string(r[:min(len(r), 8)])
}
