package observer

import (
	"bytes"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// maxCPU is the highest CPU that cpus can hold. No guest has more.
const maxCPU = 63

// cpus is a set of CPUs, one bit for each. The package has a separate type, so that it shares
// no code with the checks of the daemon.
type cpus uint64

// parseCPUs parses the kernel's list format, such as "0-1,4\n". An empty list is the empty set.
func parseCPUs(list []byte) (cpus, error) {
	var set cpus
	list = bytes.TrimSpace(list)
	if len(list) == 0 {
		return 0, nil
	}
	for part := range strings.SplitSeq(string(list), ",") {
		low, high, ranged := strings.Cut(part, "-")
		first, err := strconv.ParseUint(low, 10, 16)
		last := first
		if err == nil && ranged {
			last, err = strconv.ParseUint(high, 10, 16)
		}
		if err != nil || last < first || last > maxCPU {
			return 0, fmt.Errorf("parse CPUs %q: want ranges of CPUs from 0 to %d", list, maxCPU)
		}
		for cpu := first; cpu <= last; cpu++ {
			set |= 1 << cpu
		}
	}
	return set, nil
}

// count returns the number of CPUs in the set.
func (c cpus) count() int { return bits.OnesCount64(uint64(c)) }

// String returns the CPUs with commas between them.
func (c cpus) String() string {
	var all []string
	for cpu := range maxCPU + 1 {
		if c&(1<<cpu) != 0 {
			all = append(all, strconv.Itoa(cpu))
		}
	}
	return strings.Join(all, ",")
}
