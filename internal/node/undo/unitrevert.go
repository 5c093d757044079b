package undo

import (
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Properties are the originals of a unit as systemd takes them.
func Properties(originals []Original) []cgroup.Property {
	names := map[string]string{cgroup.FileCPUs: cgroup.UnitCPUs, cgroup.FileMems: cgroup.UnitMems, cgroup.FileWeight: cgroup.UnitWeight}
	var all []cgroup.Property
	for _, o := range originals {
		if name, ok := names[o.File]; ok {
			all = append(all, cgroup.Property{Name: name, Value: o.Value})
		}
	}
	return all
}
