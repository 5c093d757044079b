package main

import "strings"

// The commands that take the samples of a part.
const (
	hostCommand = "make bench PARTS=host"
	vmCommand   = "make bench PARTS=vm"
	liveCommand = "make bench PARTS=live"
)

// The programs and libraries that are compared.
const (
	kubelet = "kubelet static"
	driver  = "dra-driver-cpu"
	cpusets = "k8s.io/utils/cpuset"
	procfs  = "prometheus/procfs"
)

// goTest returns the command that runs benchmarks of a package. The modules below bench need
// another working directory.
func goTest(dir, pattern string, flags ...string) string {
	args := append([]string{"test", "-run", "'^$'", "-bench", "'" + pattern + "'"}, flags...)
	if strings.HasPrefix(dir, "bench") {
		return strings.Join(append([]string{"go", "-C", dir}, append(args, ".")...), " ")
	}
	return strings.Join(append([]string{"go"}, append(args, "./"+dir)...), " ")
}

// rows returns the rows of the table.
func rows() []row {
	all := allocations()
	all = append(all, libraries()...)
	all = append(all, daemon()...)
	all = append(all, virtual()...)
	return append(all, programs()...)
}

// allocations returns the rows about one choice of CPUs.
func allocations() []row {
	const dir = "bench/kubelet"
	var all []row
	for _, machine := range []struct {
		cpus, name string
		limit      float64 // of one allocation, in seconds
		least      float64 // of the kubelet's time, as a multiple of ours
	}{{"1,024", "1024", 30e-6, 500}, {"64", "64", 5e-6, 25}} {
		text := "allocation of 8 of " + machine.cpus + " CPUs, half of them in use"
		name, anchor := "Take/8of"+machine.name+"/", "allocation-"+machine.name
		ours, repeat := of("kubelet", name+"cpupoold", "sec/op"), goTest(dir, "Take$/8of"+machine.name)
		all = append(all,
			row{anchor: anchor, text: text, value: ours, unit: "s", limit: machine.limit, repeat: repeat},
			row{
				anchor: anchor + "-kubelet", text: text, rival: kubelet, unit: "x", least: machine.least, repeat: repeat,
				value: times(of("kubelet", name+"kubelet", "sec/op"), ours),
			},
			row{
				anchor: anchor + "-dra", text: text, rival: driver, unit: "x", repeat: repeat,
				value: times(of("kubelet", name+"dra-driver-cpu", "sec/op"), ours),
			})
	}
	const node = "TakeInNode/8of1024/"
	return append(all, row{
		anchor: "allocation-node-dra", text: "allocation of 8 CPUs of one of 8 NUMA nodes, half of its 128 CPUs in use", rival: driver, unit: "x",
		value:  times(of("kubelet", node+"dra-driver-cpu", "sec/op"), of("kubelet", node+"cpupoold", "sec/op")),
		repeat: goTest(dir, "TakeInNode"),
	})
}

// libraries returns the rows about packages that other programs can use.
func libraries() []row {
	other := func(name, by string) source {
		return times(of("compare", name+"/"+by, "sec/op"), of("compare", name+"/cpupoold", "sec/op"))
	}
	return []row{
		{anchor: "cpuset-parse", text: "parse a list of 512 CPUs", rival: cpusets, value: other("CPUSet/parse/512", "k8s.io-utils"), unit: "x", repeat: goTest("bench", "CPUSet/parse/512")},
		{anchor: "cpuset-union", text: "union of two sets of 512 CPUs", rival: cpusets, value: other("CPUSet/union/512", "k8s.io-utils"), unit: "x", repeat: goTest("bench", "CPUSet/union/512")},
		{anchor: "topology-procfs", text: "read the topology of 512 CPUs; only cpupoold reads caches and NUMA nodes", rival: procfs, value: other("Topology/512", "procfs"), unit: "x", repeat: goTest("bench", "Topology/512")},
		{anchor: "topology-4096", text: "read the topology of 4,096 CPUs", value: of("topology", "Read", "sec/op"), unit: "s", limit: 150e-3, repeat: goTest("pkg/topology", "Read$")},
	}
}

// daemon returns the rows about the event loop on a fake node.
func daemon() []row {
	const (
		pools = "pkg/pools"
		loop  = "internal/node/daemon"

		fromShared = "Create/own-from-shared/500containers"
	)
	reply := func(anchor, kind, containers, quantile string, limit float64) row {
		pool := map[string]string{"shared": "shared", "exclusive": "own"}[kind]
		requests := map[string]string{"shared": "5000x", "exclusive": "500x"}[kind]
		next := map[string]string{"500": "500", "1000": "1,000"}[containers]
		return row{
			anchor: anchor, text: "reply to the runtime for a new " + kind + " container, next to " + next + " containers, " + quantile,
			value: of("go", "Create/"+pool+"/"+containers+"containers", quantile+"-sec"), unit: "s", limit: limit,
			repeat: goTest(loop, "Create/^"+pool+"$/^"+containers+"containers$", "-benchtime", requests),
		}
	}
	pass := func(anchor, containers, text string) row {
		name := "Pass/" + containers + "containers/"
		return row{
			anchor: anchor, text: "compare all " + text + " containers with the plan, without writes, and publish the result",
			value: sum(of("go", name+"pass", "sec/op"), of("go", name+"publish", "sec/op")), unit: "s", repeat: goTest(loop, "Pass/"+containers+"containers"),
		}
	}
	rest := func(anchor, threads, text string) row {
		return row{
			anchor: anchor, text: "CPU time when idle, part of a core, 250 containers " + text, value: idle(threads), unit: "%",
			repeat: hostCommand,
		}
	}
	one := rest("idle", "1threads", "with one thread each")
	one.limit = 0.05
	return []row{
		reply("reply-shared", "shared", "500", "p99", 1e-3),
		reply("reply-shared-1000", "shared", "1000", "p99", 0),
		reply("reply-exclusive-p50", "exclusive", "500", "p50", 0),
		reply("reply-exclusive", "exclusive", "500", "p99", 1e-3),
		{anchor: "reply-from-shared", text: "reply to the runtime for a new exclusive container, next to 500 containers that have left its CPUs (`from: shared`), p99", value: of("go", fromShared, "p99-sec"), unit: "s", limit: 1e-3, repeat: goTest(loop, fromShared, "-benchtime", "100x")},
		{anchor: "repair", text: "repair of an external write, next to 500 containers, p99", value: of("go", "Repair/500containers", "p99-sec"), unit: "s", limit: 500e-6, repeat: goTest(loop, "Repair/500containers", "-benchtime", "500x")},
		{anchor: "plan-1024", text: "plan for 1,024 CPUs and 500 containers, without a previous plan", value: of("go", "Build/1024cpu/500containers/cold", "sec/op"), unit: "s", limit: 300e-6, repeat: goTest(pools, "Build$/1024cpu/500containers/cold")},
		{anchor: "plan-exclusive", text: "plan for 500 new exclusive containers on 1,024 CPUs", value: of("go", "BuildExclusive/list", "sec/op"), unit: "s", limit: 2e-3, repeat: goTest(pools, "BuildExclusive/list")},
		pass("pass-500", "500", "500"),
		pass("pass-1000", "1000", "1,000"),
		{anchor: "start-500", text: "start of the daemon on 500 containers in 250 pods until it is ready, CPU time", value: of("go", "Start", "cpu-sec/op"), unit: "s", limit: 300e-3, repeat: goTest(loop, "Start$")},
		{
			anchor: "crowd", text: "CPU time of the event loop for a new exclusive container, while other containers have 131,073 threads and 100,000 cgroups",
			rival: "a quiet node", slow: "with them", unit: "x", repeat: goTest(loop, "Crowd"),
			value: times(of("go", "Crowd/hostile", "loop-cpu-sec/op"), of("go", "Crowd/quiet", "loop-cpu-sec/op")),
		},
		{anchor: "annotations", text: "objects in use of the daemon's heap while the runtime lists 110 pods with 256 KiB of annotations each", value: of("go", "Annotations/hostile", "heap-B"), unit: "B", limit: 38 << 20, repeat: goTest(loop, "Annotations")},
		one,
		rest("idle-threads", "10threads", "with ten threads each"),
	}
}

// virtual returns the rows about a node, or a kernel, in a virtual machine.
func virtual() []row {
	all := []row{
		{anchor: "memory", text: "memory (RssAnon) when idle, after the start of 250 containers", value: of("vm", "Rest/placed", "RssAnon-B"), unit: "B", limit: 20 << 20, repeat: vmCommand},
		{anchor: "memory-restart", text: "memory (RssAnon) when idle, daemon restarted on 250 containers", value: of("vm", "Rest/restarted", "RssAnon-B"), unit: "B", limit: 20 << 20, repeat: vmCommand},
		{anchor: "placement", text: "start of an exclusive container until the daemon has verified its CPUs; negative: verified before the start", value: of("vm", "Placement", "started-sec"), unit: "s", repeat: vmCommand},
		{
			anchor: "row", text: "replies of the daemon for 25 exclusive containers in a row, from the arrival of each request, share of the runtime's time", unit: "%", limit: 2, repeat: vmCommand,
			value: combine(func(v ...float64) float64 { return 100 * v[0] / v[1] }, of("vm", "Row", "reply-sec"), of("vm", "Row", "row-sec")),
		},
		{
			anchor: "live-memory", text: "additional memory (RssAnon) of the daemon with `audit.live`", rival: "the daemon without it", unit: "B",
			value: combine(func(v ...float64) float64 { return v[0] - v[1] }, of("live", "Memory/live", "RssAnon-B"), of("live", "Memory/off", "RssAnon-B")), repeat: liveCommand,
		},
	}
	for _, state := range []struct{ name, text string }{
		{"free", "on a CPU without an owner"}, {"own", "on the CPU of their owner"}, {"foreign", "on the CPU of another owner"},
	} {
		const name = "Switch/linux6.12/"
		all = append(all, row{
			anchor: "live-" + state.name, text: "context switch between two processes " + state.text, rival: "without the live audit", slow: "with it", unit: "x",
			value: times(bestOf("live", name+state.name, "sec/op"), bestOf("live", name+"none", "sec/op")), repeat: liveCommand,
		})
	}
	return all
}

// programs returns the rows about the webhook and the commands.
func programs() []row {
	return []row{
		{anchor: "webhook-review", text: "webhook: requests of the API server, decoded, answered and encoded by one core", value: perSecond(of("pods", "Review/whole", "cpu-sec/op")), unit: "/s", repeat: goTest("internal/cluster/review", "Review/whole")},
		{anchor: "audit-scan", text: "`cpupoold audit`: scan of 1,000 tasks without findings", value: of("go", "Look/1000/home", "sec/op"), unit: "s", repeat: goTest("internal/node/audit", "Look/^1000$/home")},
		{anchor: "audit-findings", text: "`cpupoold audit`: scan of 1,000 tasks, all of them findings", value: of("go", "Look/1000/away", "sec/op"), unit: "s", repeat: goTest("internal/node/audit", "Look/^1000$/away")},
		{anchor: "defrag", text: "`cpupoold plan --defrag`: search for moves, 30 owners on 256 CPUs", value: of("go", "Analyse/256cpus", "sec/op"), unit: "s", repeat: goTest("pkg/defrag", "Analyse/256cpus")},
		{anchor: "import", text: "`kubectl cpupool import`: 500 MachineConfigs", value: of("go", "Import", "sec/op"), unit: "s", limit: 2, repeat: goTest("internal/plugin/migrate", "Import")},
		{anchor: "size", text: "`kubectl cpupool size`: pack 5,000 pods on nodes of 100 CPUs, CPU time", value: of("go", "Plan/fresh/5000", "cpu-sec/op"), unit: "s", repeat: goTest("internal/plugin/size", "Plan/fresh/5000")},
	}
}
