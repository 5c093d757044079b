package matrix

// Slice is a group of tests. A run of CI takes one slice, and "make test".
// Tests of the guest's package daemon are parts of TestDaemon, and tests of test/e2e are
// parts of TestCluster.
type Slice struct {
	Name  string
	Tests []string // full names
}

// Slices returns all slices. Most take at most ten minutes on an idle machine, alerts and
// undo fourteen. On a busy machine cluster-upgrade took 33 minutes, and
// TestHighAvailability of apiserver 11 for one of two clusters. The tests of
// Guarantees that are parts of TestDaemon are in no slice: "make test" runs them.
func Slices() []Slice {
	all := []Slice{
		{"changes", []string{"TestDaemon/TestModel", "TestDaemon/TestHotplug", "TestDaemon/TestResize", "TestDaemon/TestQuiet", "TestDaemon/TestPlanIsWhatRunDoes", "TestPartition", "TestUnplug"}},
		{"faults", []string{"TestDaemon/TestFaults", "TestDaemon/TestPartition", "TestDaemon/TestRequiredPlugin", "TestDaemon/TestWatchdog", "TestDaemon/TestRuntimeDown"}},
		{"node", []string{"TestDaemon/TestContainer", "TestDaemon/TestLock", "TestDaemon/TestShortLived", "TestDaemon/TestRestore", "TestDaemon/TestNRIOfAnotherRuntime", "TestDaemon/TestNRIWaits"}},
		{"node-partitions", []string{"TestDaemon/TestParking", "TestDaemon/TestUnitPartition", "TestDaemon/TestSystemPartition"}},
		{"machines", []string{"TestBoot", "TestKernel", "TestNode", "TestPanic", "TestFiles", "TestTelemetry", "TestParts"}},
		{"random", []string{"TestRandom"}},
		{"drift", []string{"TestDrift"}},
		{"soak", []string{"TestSoak"}},
		{"devices", []string{"TestPlacement/8c2n", "TestCheck"}},
		{"away", []string{"TestDaemon/TestAway"}},
		{"upgrade", []string{"TestDaemon/TestUpgrade", "TestDaemon/TestObserve"}},
		{"options", []string{"TestPlacement/16c2s2t", "TestPlacement/16c2d4l"}},
		{"apiserver", []string{"TestAPIServer"}},
		{"cluster-life", []string{"TestCluster/TestLife"}},
		{"cluster-migrate", []string{"TestCluster/TestMigrate", "TestCluster/TestMigratePooler"}},
		{"cluster-layout", []string{"TestCluster/TestLayout"}},
		{"cluster-faults", []string{"TestCluster/TestFaults"}},
		{"cluster-depletion", []string{"TestCluster/TestDepletion"}},
		{"cluster-nodes", []string{"TestCluster/TestNodes"}},
		{"cluster-upgrade", []string{"TestCluster/TestUpgrade"}},
		{"cluster-priority", []string{"TestCluster/TestPriority"}},
		{"cluster-autoscaling", []string{"TestCluster/TestAutoscaling"}},
		{"cluster-claims", []string{"TestCluster/TestClaims"}},
		{"cluster-claim-restarts", []string{"TestCluster/TestClaimRestarts"}},
		{"cluster-claim-requests", []string{"TestCluster/TestClaimRequests"}},
		{"cluster-claim-reboot", []string{"TestCluster/TestClaimReboot"}},
		{"cluster-claim-accounting", []string{"TestCluster/TestClaimAccounting"}},
		{"cluster-compare", []string{"TestCluster/TestCompareDRA"}},
		{"static-kubelet", []string{"TestStaticKubelet"}},
		{"openshift", []string{"TestOpenShift", "TestConmon"}},
		{"pod-level", []string{"TestPodLevel/containerd"}},
		{"pod-level-nri-off", []string{"TestPodLevel/containerd-nri-off"}},
		{"pod-level-crio", []string{"TestPodLevel/crio-runc"}},
		{"host", []string{"TestAudit", "TestJitter", "TestLatency/trixie"}},
		{"live", []string{"TestLiveDaemon", "TestLiveCounts/bookworm", "TestLiveCounts/trixie", "TestLiveCounts/forky"}},
		{"systemd", []string{"TestSystemd", "TestHostSlices"}},
		{"cgroup", []string{"TestCgroup"}},
		{"schedwatch", []string{"TestSchedwatch/bookworm", "TestSchedwatch/trixie", "TestSchedwatch/forky"}},
		{"interrupts", []string{"TestInterrupts"}},
		{"alerts", []string{"TestAlerts"}},
		{"undo", []string{"TestUndo/containerd"}},
		{"undo-crio", []string{"TestUndo/crio-nri", "TestUndo/crio-nri-off"}},
		{"tenants", []string{"TestTenants"}},
		{"crowds", []string{"TestCrowds"}},
		{"waits", []string{"TestWaits"}},
		{"idle", []string{"TestIdle"}},
		{"kernel-6.1", []string{"TestKernels/bookworm/cgroup", "TestKernels/bookworm/isolation", "TestKernels/bookworm/changes", "TestKernels/forky/cgroup", "TestLatency/bookworm"}},
		{"kernel-6.12", []string{"TestKernels/trixie/cgroup", "TestKernels/trixie/isolation", "TestKernels/trixie/changes", "TestKernels/trixie/partitions"}},
		{"kernel-7", []string{"TestKernels/forky/changes", "TestKernels/forky/partitions", "TestLatency/forky"}},
		{"isolation-7", []string{"TestKernels/forky/isolation"}},
		{"handovers-6.12", []string{"TestKernels/trixie/deaths"}},
		{"handovers-7", []string{"TestKernels/forky/deaths"}},
	}
	for _, p := range Pairs() {
		all = append(all, Slice{"pair-" + p.Name, []string{p.Test()}})
	}
	return all
}
