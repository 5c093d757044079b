package cri

import (
	"context"
	"errors"
)

// Find returns the endpoint of the one runtime that answers on a socket where
// the distributions of Kubernetes put it. Several, or none, are an error that
// says which were tried. Sockets are looked for below root, normally "/".
func Find(ctx context.Context, root string) (string, error) {
	return "", errors.ErrUnsupported
}
