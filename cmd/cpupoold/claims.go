package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
)

// printClaims prints the devices, and the ResourceClaims with their CPUs. Without devices and claims it
// prints nothing.
func printClaims(w *layout.Writer, devices []inspect.ClaimDevice, claims []inspect.Claim) {
	if len(devices) > 0 {
		fmt.Fprintln(w)
		w.Table(deviceTable(devices))
	}
	if len(claims) > 0 {
		fmt.Fprintln(w)
		w.Table(claimTable(claims))
	}
}

func deviceTable(all []inspect.ClaimDevice) *layout.Table {
	t := layout.NewTable("DEVICE", "NUMA NODE", "CPUS", "CAPACITY", "FREE", "STEP")
	for i := range all {
		d := &all[i]
		t.Row(d.Name, strconv.Itoa(d.Node), d.CPUs.String(), strconv.Itoa(d.CPUs.Len()), inspect.Sized(d.Free), strconv.Itoa(d.Step))
	}
	return t
}

// claimTable has a row for each part of a claim.
func claimTable(all []inspect.Claim) *layout.Table {
	t := layout.NewTable("CLAIM", "UID", "POD", "DEVICE", "CPUS", "OFFLINE", "CONTAINERS", "REASON")
	for i := range all {
		c := &all[i]
		for _, p := range c.Parts {
			t.Row(c.Full(), shortUID(c.UID), cmp.Or(c.Pod, c.PodUID), p.Device, p.CPUs.Difference(c.Away).String(), p.CPUs.Intersection(c.Away).String(), strings.Join(c.Containers, ", "), c.Code)
		}
	}
	return t
}

// shortUID returns the first characters of a UID. Few claims of a node have them in common.
func shortUID(uid string) string {
	const characters = 8
	if r := []rune(uid); len(r) > characters {
		return string(r[:characters])
	}
	return uid
}
