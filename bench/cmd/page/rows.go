package main

import (
	"fmt"
	"strings"
)

// rows returns the rows of the table.
func rows() []row {
	const plan = "Build/1024cpu/500containers/"
	all := []row{
		{text: "plan for 1,024 CPUs and 500 containers, unchanged input", value: of("go", plan+"unchanged", "sec/op"), unit: "s", limit: 20e-6},
		{text: "allocations of this plan", value: of("go", plan+"unchanged", "allocs/op"), limit: 1},
		{text: "plan for 1,024 CPUs and 500 containers, from nothing", value: of("go", plan+"cold", "sec/op"), unit: "s", limit: 300e-6},
		{text: "plan for 500 new exclusive containers on 1,024 CPUs", value: of("go", "BuildExclusive/list", "sec/op"), unit: "s", limit: 2e-3},
		{text: "plan for 64 CPUs and 250 containers, from nothing", value: of("go", "BuildScale/64cpu/2nodes", "sec/op"), unit: "s"},
		{text: "plan for 2,048 CPUs and 250 containers, from nothing", value: of("go", "BuildScale/2048cpu/16nodes", "sec/op"), unit: "s"},
	}
	for _, machine := range []struct {
		name  string
		limit float64 // of one allocation, in seconds
		least float64 // of the kubelet's time, as a multiple of ours
	}{{"1,024", 30e-6, 500}, {"64", 5e-6, 25}} {
		take := func(by string) source {
			return of("kubelet", "Take/8of"+strings.ReplaceAll(machine.name, ",", "")+"/"+by, "sec/op")
		}
		all = append(all,
			row{text: "allocation of 8 of " + machine.name + " CPUs, half of them in use", value: take("cpupoold"), unit: "s", limit: machine.limit},
			row{text: "time of the kubelet's code for the same allocation, relative to cpupoold", value: times(take("kubelet"), take("cpupoold")), unit: "x", least: machine.least})
	}
	all = append(all,
		row{text: "reply to the runtime, shared container, next to 500 containers, p99", value: of("go", "Create/shared/500containers", "p99-sec"), unit: "s", limit: 1e-3},
		row{text: "reply to the runtime, shared container, next to 1,000 containers, p99", value: of("go", "Create/shared/1000containers", "p99-sec"), unit: "s"},
		row{text: "reply to the runtime, exclusive container, next to 500 containers, p50", value: of("go", "Create/own/500containers", "p50-sec"), unit: "s"},
		row{text: "reply to the runtime, exclusive container, next to 500 containers, p99", value: of("go", "Create/own/500containers", "p99-sec"), unit: "s", limit: 1e-3},
		row{text: "repair of an external write, next to 500 containers, p99", value: of("go", "Repair/500containers", "p99-sec"), unit: "s", limit: 500e-6},
	)
	all = append(all,
		row{text: "full pass over 500 containers, no writes", value: of("go", "Pass/500containers/pass", "sec/op"), unit: "s"},
		row{text: "publication of the result of this pass", value: of("go", "Pass/500containers/publish", "sec/op"), unit: "s"},
		row{text: "full pass over 1,000 containers, no writes", value: of("go", "Pass/1000containers/pass", "sec/op"), unit: "s"},
		row{text: "publication of the result of this pass", value: of("go", "Pass/1000containers/publish", "sec/op"), unit: "s"},
		row{text: "start on 500 containers until all are verified, CPU time with the fake runtime", value: of("go", "Start", "cpu-sec/op"), unit: "s", limit: 300e-3},
		row{text: "start until an error about a flag", value: of("flag", "FlagError", "sec/op"), unit: "s", limit: 30e-3},
		row{text: "CPU time when idle, 250 containers of one thread, part of a core", value: idle("1threads"), unit: "%", limit: 0.05},
		row{text: "CPU time when idle, 250 containers of ten threads, part of a core", value: idle("10threads"), unit: "%"},
		row{text: "memory (RssAnon) when idle, after the start of 250 containers (VM)", value: of("vm", "Rest/placed", "RssAnon-B"), unit: "B", limit: 20 << 20},
		row{text: "memory (RssAnon) when idle, daemon restarted on 250 containers (VM)", value: of("vm", "Rest/restarted", "RssAnon-B"), unit: "B", limit: 20 << 20},
	)
	for _, kind := range []struct{ name, text string }{
		{"management", "for the management pool"}, {"shared", "for the shared pool"},
		{"guaranteed", "for the guaranteed pool"}, {"again", "that an earlier review has changed"},
	} {
		all = append(all, row{
			text: "webhook: pods " + kind.text + ", mutated by one core", unit: "/s", least: 20e3,
			value: perSecond(of("pods", "Mutate/"+kind.name, "cpu-sec/op")),
		})
	}
	all = append(all,
		row{
			text: "webhook: time of a review, relative to its decoding and encoding", unit: "x", limit: 2,
			value: times(of("pods", "Review/whole", "cpu-sec/op"), of("pods", "Review/coding", "cpu-sec/op")),
		},
		row{text: "time to parse 512 CPUs with `k8s.io/utils/cpuset`, relative to cpupoold", value: other("CPUSet/parse/512", "k8s.io-utils"), unit: "x"},
		row{text: "time of a union of 512 CPUs with `k8s.io/utils/cpuset`, relative to cpupoold", value: other("CPUSet/union/512", "k8s.io-utils"), unit: "x"},
		row{text: "time to read the topology of 512 CPUs with `procfs`, relative to cpupoold, which also reads caches and NUMA nodes", value: other("Topology/512", "procfs"), unit: "x"},
		row{text: "start of an exclusive container until its CPUs are verified; negative: verified earlier (VM)", value: of("vm", "Placement", "started-sec"), unit: "s"},
		row{text: "reads of files for one repair, next to 250 containers (VM)", value: of("vm", "Event/250containers/repair", "reads")},
		row{text: "writes of files for one repair, next to 250 containers (VM)", value: of("vm", "Event/250containers/repair", "writes")},
	)
	for _, l := range []struct{ name, text string }{
		{"linux6.12/write/process/opened", "write of `cpuset.cpus`"},
		{"linux6.12/owner/root/begins", "new owner with a `root` partition"},
		{"linux6.12/owner/isolated/begins", "new owner with an `isolated` partition"},
	} {
		name := "Limit/" + l.name
		all = append(all, row{
			text: fmt.Sprintf("time of the daemon, relative to the bare system calls, Linux 6.12: %s (VM)", l.text), unit: "x",
			value: times(of("limits", name, "ours-sec/op"), of("limits", name, "sec/op")),
		})
	}
	return all
}

// other returns the time of another library, as a multiple of cpupoold's time.
func other(name, by string) source {
	return times(of("compare", name+"/"+by, "sec/op"), of("compare", name+"/cpupoold", "sec/op"))
}
