package inventory

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
)

func AskUnit(h *hostenv.Host, ctx context.Context, name string) UnitStatus {
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	u, err := h.Units.Unit(ctx, name)
	return UnitStatus{Name: name, Unit: u, files: hostslices.Settings(u.Files, u.CPUs, h.UnitFile), Err: err}
}
