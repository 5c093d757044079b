package inventory

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	services "github.com/cpupoold/cpupoold/internal/node/hostslices"
)

func AskUnit(h *hostenv.Host, ctx context.Context, name string) UnitFetched {
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	u, err := h.Units.Unit(ctx, name)
	return UnitFetched{Name: name, Unit: u, files: services.Settings(u.Files, u.CPUs, h.UnitFile), Err: err}
}
