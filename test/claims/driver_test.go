//go:build apiserver

package claims_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/testing/claimnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// statusOf returns status.devices as lines.
func statusOf(c *resourcev1.ResourceClaim) string {
	var lines []string
	for _, d := range c.Status.Devices {
		line := d.Driver + "/" + d.Pool + "/" + d.Device
		if d.Data != nil {
			line += " " + string(d.Data.Raw)
		}
		for _, r := range d.Conditions {
			line += fmt.Sprintf(" %s=%s %s", r.Type, r.Status, r.Reason)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// testDriver prepares and ends claims with the whole driver. Its rights must be enough.
func testDriver(t *testing.T, s *apiServer) {
	ctx := t.Context()
	all := s.client(t, admin, "").ResourceV1().ResourceClaims("apps")
	n := claimnode.New(t, "n1", s.driver(t, "n1"))
	n.Start("first")
	eventually(t, "the driver publishes", func(ctx context.Context) error {
		list, err := s.client(t, admin, "").ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=n1,spec.driver=" + dra.Driver})
		if err == nil && (len(list.Items) != 1 || len(list.Items[0].Spec.Devices) != 2) {
			err = fmt.Errorf("slices %+v; want one with two devices", list.Items)
		}
		return err
	})
	remove := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if err := all.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}

	// Results that no allocator of the cluster makes, and the API takes.
	for _, amount := range []string{"0", "-1", "1500m", "9223372036854775808"} {
		result := ours("n1")
		result.ConsumedCapacity[dra.Capacity] = resource.MustParse(amount)
		if a := n.Prepare(s.reserved(t, "amount", "n1", result)); len(a.Devices) != 0 || !strings.Contains(a.Error, "whole number of CPUs") {
			t.Errorf("amount %s: %v; want a refusal", amount, a)
		}
		remove("amount")
	}
	if a := n.Prepare(s.reserved(t, "foreign", "n2", ours("n2"))); len(a.Devices) != 0 || !strings.Contains(a.Error, "this node is pool n1") {
		t.Errorf("claim of another node: %v; want a refusal", a)
	}
	if c := n.Daemon.Claims().Claims; len(c) != 0 {
		t.Errorf("%d claims reached the daemon; want none", len(c))
	}

	du, orphan := s.reserved(t, "du", "n1", ours("n1"), nic()), s.reserved(t, "orphan", "n1", ours("n1"), nic())
	for _, c := range []*resourcev1.ResourceClaim{du, orphan} {
		c.Status.Devices = []resourcev1.AllocatedDeviceStatus{entry(nic(), `{"mac":"02:00:00:00:00:01"}`)}
		if _, err := all.UpdateStatus(ctx, c, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if a := n.Prepare(c); a.Error != "" || len(a.Devices) != 1 {
			t.Fatalf("prepare %s = %v; want a device", c.Name, a)
		}
	}
	has := func(name, want string) {
		t.Helper()
		want = `nic.example.com/n1/eth0 {"mac":"02:00:00:00:00:01"}` + "\n" + want
		eventually(t, "status of "+name, func(ctx context.Context) error {
			c, err := all.Get(ctx, name, metav1.GetOptions{})
			if got := statusOf(c); err == nil && got != want {
				err = fmt.Errorf("status.devices is %q; want %q", got, want)
			}
			return err
		})
	}
	has("du", `cpu.cpupoold.io/n1/numa0 {"cpus":"2-3","node":0} Ready=True Prepared`)
	has("orphan", `cpu.cpupoold.io/n1/numa0 {"cpus":"4-5","node":0} Ready=True Prepared`)
	n.Daemon.Change(func(now *inspect.Claims) {
		now.Claims[slices.IndexFunc(now.Claims, func(c inspect.Claim) bool { return c.UID == string(du.UID) })].Away = cpuset.Of(3)
	})
	has("du", `cpu.cpupoold.io/n1/numa0 {"cpus":"2-3","node":0} Ready=False CPUsAway`)

	// The kubelet loses its state, and the claim is deleted. The next instance ends it.
	remove("orphan")
	first, metrics := n.Stop, n.Get("/metrics")
	n.Start("second")
	if err := first(); err != nil {
		t.Errorf("stop: %v", err)
	}
	eventually(t, "end of the orphan", func(context.Context) error {
		if n.Daemon.Has(string(orphan.UID)) {
			return fmt.Errorf("claim %s is prepared", orphan.Name)
		}
		return nil
	})
	if !n.Daemon.Has(string(du.UID)) {
		t.Error("claim du has ended without the kubelet")
	}
	if e := n.Unprepare(du); e != "" || n.Daemon.Has(string(du.UID)) || len(n.CDIFiles()) > 0 {
		t.Errorf("unprepare: %q, files %q", e, n.CDIFiles())
	}
	for line := range strings.Lines(metrics + n.Get("/metrics")) {
		name, _, _ := strings.Cut(line, "{")
		if failures := []string{"cpupool_dra_background_errors_total", "cpupool_dra_publication_errors_total"}; slices.Contains(failures, name) && !strings.HasSuffix(line, " 0\n") {
			t.Errorf("the API server refused a request of the driver: %s", line)
		}
	}
	if err := n.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	remove("du", "foreign")
}
