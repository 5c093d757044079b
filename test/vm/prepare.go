package vm

import (
	"context"
)

// BuildImages installs what the host lacks, builds the node's software and every image, and makes the snapshot of a node with that
// topology. All that is there already stays; the first time takes minutes. Progress goes to standard error.
func BuildImages(ctx context.Context, topology string) error {
	store, err := openStore()
	if err != nil {
		return err
	}
	if err := store.Prepare(ctx); err != nil {
		return err
	}
	plain, _, err := Config{}.resolved()
	if err != nil {
		return err
	}
	if _, err := findDisk(ctx, store, plain); err != nil {
		return err
	}
	m, err := Boot(ctx, Config{Topology: topology, Node: true})
	if err != nil {
		return err
	}
	return m.Close()
}
