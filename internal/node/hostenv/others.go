package hostenv

import (
	"os"

	"github.com/cpupoold/cpupoold/internal/managers"
)

// readManagers reads what CRI-O is told to do.
func readManagers() managers.CRIO { return managers.ReadCRIO(os.DirFS("/")) }
