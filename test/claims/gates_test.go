//go:build apiserver

package claims_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cpupoold/cpupoold/internal/claimdriver/slices"
	"github.com/cpupoold/cpupoold/internal/dra"
)

// Devices of four, and of fewer, as the API server stores them.
const (
	fourCPUs  = "numa0 4 default 1 min 1 step 1"
	fewerCPUs = "numa0 2 default 1 min 1 step 1"
)

// TestGatesOn checks the driver in an API server with the feature gate of the mapping. The kubelet of n1 has the
// gate too, the kubelet of n2 has not.
func TestGatesOn(t *testing.T) {
	s := start(t, feature+"=true")
	t.Run("slices", func(t *testing.T) { testSlices(t, s) })
	t.Run("shapes", func(t *testing.T) { testShapes(t, s) })
	t.Run("policies", func(t *testing.T) { testPolicies(t, s) })
	t.Run("status", func(t *testing.T) { testStatus(t, s) })
	t.Run("driver", func(t *testing.T) { testDriver(t, s) })
	t.Run("requests", func(t *testing.T) { testRequests(t, s) })
	t.Run("rights", func(t *testing.T) { testRights(t, s) })
	t.Run("together", func(t *testing.T) {
		t.Run("kubelet without the gate", func(t *testing.T) {
			t.Parallel()
			p := s.publish(t, "n2", slices.Auto)
			p.answer = four(t)
			p.wants(t, "four CPUs", fourCPUs+" reserved")
			p.answer = nil
			p.wants(t, "away", fourCPUs+" reserved cpu.cpupoold.io/away:NoSchedule since true")
			p.answer = fewer(t)
			p.wants(t, "a core offline", fewerCPUs+" reserved")
			p.answer = four(t)
			p.answer.Ready, p.answer.Problem = false, "NRI is not connected"
			p.wants(t, "not ready")
		})
		t.Run("two drivers during an update", func(t *testing.T) {
			t.Parallel()
			s.node(t, "n4", feature)
			earlier := s.publish(t, "n4", slices.Auto)
			earlier.answer = four(t)
			name := earlier.wants(t, "first driver", fourCPUs+mapping)
			next := s.publish(t, "n4", slices.Auto)
			next.answer = fewer(t)
			earlier.Answered(next.answer)
			next.wants(t, "both drivers", fewerCPUs+mapping)
			earlier.stop()
			next.answer = four(t)
			if got := next.wants(t, "second driver", fourCPUs+mapping); got != name {
				t.Errorf("slice %s has replaced %s; want no gap", got, name)
			}
		})
		t.Run("kubelet that loses the gate", func(t *testing.T) {
			t.Parallel()
			p := s.publish(t, "n1", slices.Auto)
			p.answer = four(t)
			p.wants(t, "four CPUs", fourCPUs+mapping)
			s.undeclare(t, "n1")
			p.answer = fewer(t)
			p.wants(t, "a core offline", fewerCPUs+" reserved")
			if got := p.metric(t, "cpupool_dra_publication_errors_total"); got == 0 {
				t.Error("no error of the publication; want the refusal of the API server")
			}
		})
	})
}

// TestGatesOff checks the driver in an API server without the mapping, without taints, and without its own checks
// of the status of claims.
func TestGatesOff(t *testing.T) {
	s := start(t, feature+"=false,DRADeviceTaints=false,DRADeviceTaintRules=false,DRAResourceClaimGranularStatusAuthorization=false")
	t.Run("status", func(t *testing.T) { testStatus(t, s) })
	t.Run("driver", func(t *testing.T) { testDriver(t, s) })
	t.Run("accounting", func(t *testing.T) {
		p := s.publish(t, "n1", slices.Auto)
		p.answer = four(t)
		p.wants(t, "four CPUs", fourCPUs+" reserved")
		p.answer = nil
		p.wants(t, "away")
		if n := len(p.reports()); n != 0 {
			t.Errorf("%d reports of dropped fields; want none after the probe", n)
		}
		must := s.publish(t, "n2", slices.Mapped)
		must.answer = four(t)
		must.wants(t, "the mapping is required")
	})
}

// TestNoShares checks that no devices are published where one claim would get a whole device.
func TestNoShares(t *testing.T) {
	s := start(t, "DRAConsumableCapacity=false")
	p := s.publish(t, "n1", slices.Auto)
	p.answer = four(t)
	p.wants(t, "capacity without shares")
}

// TestGateSwitchedOff checks that the driver goes on without the mapping when a restarted API server drops it. On n3
// the driver restarts too.
func TestGateSwitchedOff(t *testing.T) {
	s := start(t, feature+"=true")
	p := s.publish(t, "n1", slices.Auto)
	p.answer = four(t)
	p.wants(t, "gate on", fourCPUs+mapping)
	s.node(t, "n3", feature)
	restarts := s.publish(t, "n3", slices.Auto)
	restarts.answer = four(t)
	restarts.wants(t, "gate on", fourCPUs+mapping)
	s.Process.End(t, waitTimeout)
	s.Args = args(feature + "=false")
	s.Start(t)
	// The API server keeps the field in slices that have it.
	p.answer = fewer(t)
	p.wants(t, "gate off, slice with the field", fewerCPUs+mapping)
	gone := metav1.ListOptions{FieldSelector: "spec.nodeName=n1,spec.driver=" + dra.Driver}
	if err := s.kubelet(t, "n1").ResourceV1().ResourceSlices().DeleteCollection(t.Context(), metav1.DeleteOptions{}, gone); err != nil {
		t.Fatal(err)
	}
	p.answer = four(t)
	p.wants(t, "gate off, new slice", fourCPUs+" reserved")
	if n := len(p.reports()); n != 1 {
		t.Errorf("%d reports of dropped fields; want one", n)
	}
	restarts.wants(t, "gate off, before the restart of the driver", fourCPUs+mapping)
	restarts.stop()
	restarted := s.publish(t, "n3", slices.Auto)
	restarted.answer = four(t)
	restarted.wants(t, "gate off, after the restart of the driver", fourCPUs+" reserved")
}

// undeclare removes the features that the kubelet of a node declares.
func (s *apiServer) undeclare(t *testing.T, node string) {
	t.Helper()
	patch := []byte(`{"status":{"declaredFeatures":null}}`)
	if _, err := s.client(t, admin, "").CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}
