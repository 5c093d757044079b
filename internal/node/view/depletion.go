package view

import (
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// CodeDepleted: the shared pool has fewer CPUs than depletion.floor.
const CodeDepleted pools.Code = "SharedDepleted"
