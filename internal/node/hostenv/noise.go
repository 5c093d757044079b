package hostenv

import (
	"fmt"
	"os"

	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// BootFacts is what the kernel's command line says, or why that is not known, or not
// all of it.
type BootFacts struct {
	noise.Boot
	Unknown bool // it could not be read at all
	Err     error
}

func ReadBoot(possible cpuset.Set) BootFacts {
	b, err := os.ReadFile(ProcRoot + "/cmdline")
	if err != nil {
		return BootFacts{Unknown: true, Err: fmt.Errorf("read kernel command line: %w", err)}
	}
	boot, err := noise.ParseBoot(string(b), possible.Last()+1)
	return BootFacts{Boot: boot, Err: err}
}
