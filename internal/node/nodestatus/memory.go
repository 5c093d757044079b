package nodestatus

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// nodeMemory returns the memory of a NUMA node in bytes by resource name: memory, and huge
// pages of each size, which memory does not include. sys is sysfs
// (Documentation/ABI/stable/sysfs-devices-node; a line of meminfo is "Node 0 MemTotal: 1 kB").
func nodeMemory(sys fs.FS, id int) (map[string]int64, error) {
	dir := "devices/system/node/node" + strconv.Itoa(id)
	text, err := fs.ReadFile(sys, dir+"/meminfo")
	if err != nil {
		return nil, fmt.Errorf("memory of NUMA node %d: %w", id, err)
	}
	total := int64(-1)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 5 && fields[2] == "MemTotal:" {
			if total, err = strconv.ParseInt(fields[3], 10, 42); err != nil {
				return nil, fmt.Errorf("memory of NUMA node %d: %w", id, err)
			}
		}
	}
	if total < 0 {
		return nil, fmt.Errorf("memory of NUMA node %d: no MemTotal in %s/meminfo", id, dir)
	}
	all := map[string]int64{}
	pages, err := fs.Glob(sys, dir+"/hugepages/hugepages-*kB")
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		size, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(page, dir+"/hugepages/hugepages-"), "kB"), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("huge pages of NUMA node %d: %w", id, err)
		}
		text, err := fs.ReadFile(sys, page+"/nr_hugepages")
		if err != nil {
			return nil, fmt.Errorf("huge pages of NUMA node %d: %w", id, err)
		}
		count, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("huge pages of NUMA node %d: %w", id, err)
		}
		all["hugepages-"+binarySize(size)] = count * size * 1024
		total -= count * size
	}
	all["memory"] = max(total, 0) * 1024
	return all, nil
}

// binarySize formats a size in KiB as in the resource names of huge pages, such as 2Mi.
func binarySize(kib int64) string {
	for _, unit := range []string{"Ki", "Mi"} {
		if kib%1024 != 0 {
			return strconv.FormatInt(kib, 10) + unit
		}
		kib /= 1024
	}
	return strconv.FormatInt(kib, 10) + "Gi"
}
