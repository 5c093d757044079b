package partition

import (
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

func IsParking(p cgroup.Path) bool { return p == cgroup.Parking || p == cgroup.ParkingTop }
