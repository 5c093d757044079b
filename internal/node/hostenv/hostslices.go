package hostenv

import (
	"github.com/cpupoold/cpupoold/internal/node/durable"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
)

// hostFile reads a unit file of the host, from within a privileged container too.
func hostFile(name string) ([]byte, error) {
	return hostslices.OfTheHost(func(name string) ([]byte, error) { return durable.Read(name, unitFileLimit) })(name)
}

// unitFileLimit is far above any unit file, in bytes.
const unitFileLimit = 1 << 20
