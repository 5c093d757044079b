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
		"what the kubelet's CPU manager tells its topology manager: we place CPUs after it has placed devices and memory, and follow its choice",
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
		"the state of the kubelet's CPU manager and its file: ours is computed from what runs, in each pass",
	},
	{
		[]string{"policy_sequence"},
		"known by name only: its form is not decided",
	},
	{
		[]string{"pod_guaranteed_cpus"},
		"what pkg/pools reserves for a pod is not exported",
	},
	{
		[]string{"admit", "effective_request", "managed_node", "mixed_cpus", "node_resources", "qos", "qos_difference"},
		"needs the admission webhook",
	},
	{
		[]string{"node_capacity", "static_mutate"},
		"needs the rewriting of static pods",
	},
	{
		[]string{"apply", "apply_conmon", "mutate_spec"},
		"needs CRI-O's workloads table: beside an active one `run` refuses",
	},
	{
		[]string{"validate"},
		"needs the admission webhook, and for some cases CRI-O's workloads table",
	},
	{
		[]string{"kubelet_pinning_enabled", "mixed_cpus_file", "partition_file", "profile_cpus", "render", "strict_parse"},
		"needs the import of OpenShift's pinning files",
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
}

const (
	noSuchCPU = "CPU numbers end at cpuset.MaxCPUs-1 = 8191"
	noGates   = "options need no feature gate"
)

// errDeviation is wrapped by checks that meet a deliberate difference. The rule
// counts, not the name, so that new cases of the same sort are recognised.
var errDeviation = errors.New("deliberate deviation, see MAP.md")

// decode reads a case into what its kind expects.
func decode[T any](raw json.RawMessage) (T, error) {
	var c T
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("read case: %w", err)
	}
	return c, nil
}

// compare is nil when got is what the case expects.
func compare(what string, got, want any) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%s (-want +got):\n%s", what, diff)
	}
	return nil
}
