package hostenv

import (
	"context"
)

// UnitSource is the part of the systemd client that watches units.
type UnitSource interface {
	WatchUnits(ctx context.Context, units []string, wake func(unit string)) error
}
