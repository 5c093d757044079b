package undo

import (
	"path/filepath"

	"github.com/cpupoold/cpupoold/internal/node/durable"
)

// Mark is beside the lock. Where it is missing, there was no journal since the
// machine booted, or restore has put back all of it; then what a file or a unit holds is
// its owner's, also if it is what the daemon would write.
func Mark(runDir, bootID string) durable.Mark {
	return durable.Mark{Name: filepath.Join(runDir, "journal.mark"), BootID: bootID}
}
