//go:build guest

package systemd_test

import (
	"os"
	"testing"
)

// TestPartitionProperty checks CPUSetPartition= of a service. Versions before 261 do not have the property, and ignore the line.
func TestPartitionProperty(t *testing.T) {
	s, _ := newSystemd(t)
	const unit = "conformance-partition.service"
	manager{}.Install(t, unit, "")
	dir := unitDir + unit + ".d"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	check := func(want string) {
		t.Helper()
		if u, err := s.Unit(t.Context(), unit); err != nil || u.Partition != want {
			t.Errorf("Unit = %+v, %v; want the partition %q", u, err, want)
		}
	}
	check("")
	version, err := s.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const property = 261 // the first version with CPUSetPartition=
	for _, value := range []string{"root", "member"} {
		if err := os.WriteFile(dir+"/partition.conf", []byte("[Service]\nAllowedCPUs=1\nCPUSetPartition="+value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		manager{}.Reload(t)
		if version < property {
			value = ""
		}
		check(value)
	}
}
