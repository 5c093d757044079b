package dra_test

import (
	"encoding/json"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// FuzzParts checks that each part of a claim has a possible number of CPUs, and that the parts are results
// of the driver on the node.
func FuzzParts(f *testing.F) {
	for _, amount := range []string{"2", "-1", "0", "1500m", "9223372036854775808", "1e3", "1Ki", "999999999999999999999999"} {
		f.Add(`{"status": {"allocation": {"devices": {"results": [
			{"request": "r", "driver": "cpu.cpupoold.io", "pool": "n", "device": "numa0", "consumedCapacity": {"cpu.cpupoold.io/cpus": "` + amount + `"}},
			{"request": "nic", "driver": "nic", "pool": "n", "device": "eth0"}]}}}}`)
	}
	f.Add(`{"status": {"allocation": {"devices": {"results": [{"driver": "cpu.cpupoold.io", "pool": "m"}, {"driver": "cpu.cpupoold.io", "adminAccess": true}]}}}}`)
	f.Add(`{}`)
	f.Fuzz(func(t *testing.T, text string) {
		var claim resourcev1.ResourceClaim
		if json.Unmarshal([]byte(text), &claim) != nil {
			t.Skip()
		}
		parts, err := dra.Parts(&claim, "n")
		if err != nil {
			if len(parts) > 0 {
				t.Errorf("%d parts and the error %v", len(parts), err)
			}
			return
		}
		at := 0
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.Driver != dra.Driver || r.AdminAccess != nil && *r.AdminAccess {
				continue
			}
			amount := r.ConsumedCapacity[dra.Capacity]
			if at == len(parts) {
				t.Fatalf("no part for the result of request %q", r.Request)
			}
			if p := parts[at]; r.Pool != "n" || p.Request != r.Request || p.Device != r.Device || p.CPUs < 1 || p.CPUs > cpuset.MaxCPUs || amount.CmpInt64(int64(p.CPUs)) != 0 {
				t.Errorf("part %+v of the result %+v", p, r)
			}
			at++
		}
		if at != len(parts) {
			t.Errorf("%d parts; want %d", len(parts), at)
		}
	})
}
