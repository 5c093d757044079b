package vectors_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
)

// kind is a row of MAP.md's first table: the functions that the cases of a kind
// exercise, and how.
type kind struct {
	functions string
	check     func(json.RawMessage) error
}

// kinds returns the kinds that run, for cases of a file with these machines.
func (m machines) kinds() map[string]kind {
	return map[string]kind{
		"size":              {"cpuset.Set.Len", checkSize},
		"is_empty":          {"cpuset.Set.IsEmpty", checkIsEmpty},
		"contains":          {"cpuset.Set.Contains", checkContains},
		"equal":             {"cpuset.Set.Equal", checkEqual},
		"subset":            {"cpuset.Set.IsSubsetOf", checkSubset},
		"union":             {"cpuset.Set.Union", checkUnion},
		"intersection":      {"cpuset.Set.Intersection", checkIntersection},
		"difference":        {"cpuset.Set.Difference", checkDifference},
		"list":              {"cpuset.Set.All", checkList},
		"format":            {"cpuset.Of, cpuset.Set.String", checkFormat},
		"parse":             {"cpuset.Parse (k8s), cpuset.ParseKernel (kernel)", checkParse},
		"parse_kernel":      {"cpuset.ParseKernel", checkParseKernel},
		"parse_kernel_mask": {"cpuset.ParseMask", checkParseMask},

		"shares_to_weight_linear":          {"cgroup.WeightLinear", checkWeightLinear},
		"shares_to_weight_quadratic":       {"cgroup.WeightQuadratic", checkWeightQuadratic},
		"shares_to_weight_quadratic_range": {"cgroup.WeightQuadratic", checkWeightRange},
		"weight_to_shares":                 {"cgroup.SharesFromWeight", checkSharesFromWeight},
		"milli_to_shares":                  {"workload.MilliCPUToShares", checkMilliToShares},
		"milli_to_quota":                   {"cgroup.MilliCPUToQuota", checkMilliToQuota},
		"milli_to_weights":                 {"workload.MilliCPUToShares, cgroup.WeightQuadratic, cgroup.WeightLinear", checkMilliToWeights},

		"option_available":    {"config.Parse", m.checkOption},
		"options_parse":       {"config.Parse", m.checkOptions},
		"options_validate":    {"config.Parse", m.checkOptions},
		"kubelet_choice":      {"allocate.Supply.Take", m.checkTake},
		"take_packed":         {"allocate.Supply.Take", m.checkTake},
		"take_distributed":    {"allocate.Supply.Take", m.checkTake},
		"allocate_cpus":       {"allocate.Supply.Take", m.checkTake},
		"policy_allocate":     {"allocate.Supply.Take", m.checkPolicyAllocate},
		"policy_allocate_all": {"allocate.Supply.Take, container by container", m.checkPolicyPod},
		"policy_pod":          {"allocate.Supply.Take, container by container", m.checkPolicyPod},

		"admit":             {"admission.Settings.Mutate", checkAdmit},
		"effective_request": {"admission.Settings.Mutate", checkEffectiveRequest},
		"qos":               {"admission.Settings.Mutate", checkClass},
		"qos_difference":    {"admission.Settings.Mutate", checkClass},
		"static_mutate":     {"admission.Settings.Mutate", checkStatic},
		"validate":          {"admission.Settings.Validate; CRI-O's table: migrate.Import", checkValidate},
		"apply":             {"pools.Build", checkApply},
		"node_capacity":     {"node.Layout.Pools, node.Advertise", checkNodeCapacity},
		"node_resources":    {"node.Layout.Pools, node.Advertise", checkNodeResources},

		"strict_parse":            {"migrate.ParsePinning", checkStrictParse},
		"profile_cpus":            {"migrate.Import", checkProfileCPUs},
		"kubelet_pinning_enabled": {"migrate.Import", checkPinningEnabled},
		"mixed_cpus_file":         {"migrate.ParseMixed", checkMixedFile},
		"render":                  {"migrate.Import, migrate.Render", checkRender},
	}
}

// waiting is a row of MAP.md's second table: kinds that do not run, and why.
type waiting struct {
	kinds  []string
	reason string
}

var waitingKinds = []waiting{
	{
		[]string{
			"accumulator_take", "alignment", "cpu_core_id", "cpu_numa_id", "cpu_socket_id", "cpus_in_uncore", "cpus_per_uncore",
			"discover", "free_cores_ordered", "free_cpus_ordered", "free_numa_nodes", "free_sockets", "free_sockets_and_numa",
			"numa_in_sockets", "numa_nodes_in_same_socket", "smt_error_reason", "uncore_id_of_core", "uncore_ids", "uncore_in_numa",
		},
		"the kubelet's internal tables, lists and texts, which we do not have: pkg/topology reads sysfs and is tested with it",
	},
	{
		[]string{"pod_level_topology_hints", "pod_topology_hints", "topology_hints"},
		"the hints of the kubelet's CPU manager to its topology manager: we place CPUs after it has placed devices and memory, and follow its choice",
	},
	{
		[]string{"allocate_pod_level", "validate_pod_scope"},
		"how the kubelet splits the budget of a pod's own resources, behind an alpha gate: we give CPUs to containers",
	},
	{
		[]string{
			"allocatable_cpus", "checkpoint_restore", "checkpoint_store_reload", "manager_new", "operation_sequence", "policy_remove",
			"policy_start", "reconcile", "restart_restore",
		},
		"the state of the kubelet's CPU manager and its file: ours is computed from the running containers, in each pass",
	},
	{
		[]string{"policy_sequence"},
		"known by name only: its form is not decided",
	},
	{
		[]string{"pod_guaranteed_cpus"},
		"the reservation of pkg/pools for a pod is not exported",
	},
	{
		[]string{"managed_node", "mixed_cpus"},
		"OpenShift's flag for all nodes, and its device for containers that have exclusive and shared CPUs: we have neither",
	},
	{
		[]string{"apply_conmon", "mutate_spec"},
		"where CRI-O's monitors run, and how it fills its own structures",
	},
	{
		[]string{"partition_file"},
		"a file of a prototype that was never merged",
	},
}

// reasonToWait returns why a kind does not run, and false when it is unknown.
func reasonToWait(kind string) (string, bool) {
	for _, w := range waitingKinds {
		if slices.Contains(w.kinds, kind) {
			return w.reason, true
		}
	}
	return "", false
}

// deviation is a row of MAP.md's third table: a case that we answer differently
// on purpose.
type deviation struct{ name, reason string }

var deviations = []deviation{
	{"derived parse '65535'", noSuchCPU},
	{"beyond MaxCPUs", noSuchCPU},
	{"PolicyOptionsAvailable 04: option_available", noGates},
	{"PolicyOptionsAvailable 06: option_available", noGates},
	{"PolicyOptionsAvailable 08: option_available", noGates},
	{"four-nodes-each 22", "fewer split cores, in shares that are less even by one CPU"},
	{"four-sockets 17", "fewer split cores, in shares that are less even by one CPU"},
	{"four-sockets 15", "one socket less, on fewer cores"},
	{"two-nodes-each 18", "more cores, on two NUMA nodes of the socket"},
	{"two-nodes-each 27", "one socket less, on fewer cores"},
	{"four-nodes-each 11", allHinted},
	{"four-nodes-each 15", allHinted},
	{"two-nodes-each 24", allHinted},
	{"whole cores on two nodes", wholeFirst},
	{"whole cores in uneven shares", wholeFirst},
	{"groups of parts of cores", "shares that are even to a CPU, not to a group of CPUs"},
	{"admit 14 cluster without CPU partitioning", offIsWarned},
	{"admit 15 no nodes yet: allowed unchanged", offIsWarned},
	{"admit 16 infrastructure status empty", "there is no Infrastructure object"},
	{"admit 17 both topology fields empty: left alone", offIsWarned},
	{"admit 19 HA control plane, no flag", offIsWarned},
	{"admit old 1 plain namespace is an error", outOfDate},
	{"admit old 2 request and limit: skipped with a warning", outOfDate},
	{"admit old 3 a node lacks the resource: skipped with a warning", outOfDate},
	{"admit old 4 no nodes is an error", outOfDate},
	{"admit derived: target annotation dropped silently when the cluster has no partitioning", offIsWarned},
	{"admit derived: seed spelling of the namespace annotation has no effect", "the older annotation of namespaces counts"},
	{"admit derived: effect error is not reached without partitioning", offIsWarned},
	{"admit derived: other resource kinds (not pods) pass through", podsAreMade},
	{"qos 03 Guaranteed", asKubernetes},
	{"validate 07 plain namespace is allowed", whereAllowed},
	{"validate: keys in other letters", asWritten},
	{"validate: null", asWritten},
	{"validate: shares of no number in a namespace that says nothing", whereAllowed},
	{"validate derived: namespace missing", "the API server finds the namespace before it asks"},
	{"static error 01 app container without cpu", staticLacks},
	{"static error 02 app container without memory", staticLacks},
	{"static error 03 init container without cpu", staticLacks},
	{"static error 04 init container without memory", staticLacks},
	{"static 04 no resources", staticSame},
	{"static 05 only an unrelated request", staticSame},
	{"static 06 app and init container without resources", staticSame},
	{"static 07 app and init container with an unrelated request", staticSame},
	{"static 10 cpu request 0 counts as guaranteed", asKubernetes},
	{"static derived: pre-set resource annotation of a container that is not mutated survives", staticSame},
	{"manifest: resources of a container that is not there", staticForeign},
	{"manifest: request of no memory", staticClass},
	{"static derived: pinning file absent, nothing happens", "no file enables this: rewriting a manifest is an explicit request"},
	{"no management pool any more", withdrawn},
	{"node resources: no isolated CPUs", noneIsNone},
	{"static old management 1", givenUp},
	{"static old management 2", givenUp},
	{"static old throttle 1", givenUp},
	{"static old throttle 2", givenUp},
	{"workload: a pod that chooses its CPUs", reportedOnly},
	{"workload: shares that are no number", reportedOnly},
	{"workload: an annotation that only is there", targetForm},
	{"workload: values of the table", tableValues},
	{"workload: names of the table's own", tableNames},
}

const (
	noSuchCPU  = "CPU numbers end at cpuset.MaxCPUs-1 = 8191"
	wholeFirst = "whole cores alone under full-pcpus-only, on more nodes or in less even shares"

	allHinted = "shares from all hinted NUMA nodes, as with kubelets that have the change of kubernetes#139430"
	noGates   = "options need no feature gate"

	tableNames   = "a workload's annotations have the names that the configuration's domain gives them"
	tableValues  = "there are no values but a container's own: the webhook writes them, for every container"
	targetForm   = "the annotation of the pod has the required form, or does not count"
	reportedOnly = "a bad annotation is reported, and the container runs in its pool: it cannot get CPUs that are not the pool's by it"
	podsAreMade  = "the webhook reviews only created pods"
	offIsWarned  = "the warning names the disabled feature"
	outOfDate    = "OpenShift does otherwise today"
	staticLacks  = "static pods may lack CPU or memory requests, as others may"
	staticSame   = "containers without CPU requests are treated as in other pods"
	givenUp      = "a form of annotations that OpenShift has given up"
	withdrawn    = "a pool that is gone takes its resource with it; OpenShift's kubelet leaves it"
	noneIsNone   = "a missing pool has no resource, instead of an empty one"
	// staticForeign and staticClass: OpenShift's kubelet leaves both as they are.
	staticForeign = "resources of containers that the pod does not have are removed"
	staticClass   = "a static pod keeps its QoS class, as others do"
	asWritten     = "an annotation of resources is read as the webhook writes it, in letters and range"
	whereAllowed  = "the annotation may be only where the namespace allows it"
	staticWords   = "the annotation of a static pod needs the form of any pod's"
	asKubernetes  = "requests count as the API server and the kubelet read them"
)

// errDeviation is wrapped by checks that meet a deliberate difference. The rule
// counts, not the name, so that new cases of the same sort are recognised.
var errDeviation = errors.New("deliberate deviation, see MAP.md")

// decode reads a case into the type of its kind.
func decode[T any](raw json.RawMessage) (T, error) {
	var c T
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("read case: %w", err)
	}
	return c, nil
}

// compare returns nil if got is the expected value.
func compare(what string, got, want any) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%s (-want +got):\n%s", what, diff)
	}
	return nil
}
