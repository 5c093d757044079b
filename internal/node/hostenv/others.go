package hostenv

import (
	"os"

	"github.com/cpupoold/cpupoold/internal/node/managers"
)

// readManagers reads what CRI-O is told to do.
func readManagers() managers.CRIO { return managers.ReadCRIO(os.DirFS("/")) }
