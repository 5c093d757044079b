package vm

import (
	"context"
)

// BuildImages makes the disks of a plain machine and of a node, and the snapshot of a node with that topology. Existing ones stay. The first
// time takes minutes. Progress goes to standard error.
func BuildImages(ctx context.Context, topology string) error {
	node := Config{Topology: topology, Node: true}
	for _, c := range []Config{{}, node} {
		if err := c.Make(ctx); err != nil {
			return err
		}
	}
	m, err := Boot(ctx, node)
	if err != nil {
		return err
	}
	return m.Close()
}

// Make installs the missing packages of the host, and makes the disk of a machine. An existing disk stays.
func (c Config) Make(ctx context.Context) error {
	c, _, err := c.resolved()
	if err != nil {
		return err
	}
	store, err := openStore()
	if err != nil {
		return err
	}
	if err := store.Prepare(ctx); err != nil {
		return err
	}
	_, err = findDisk(ctx, store, c)
	return err
}

// Made reports whether the cache has a disk and a snapshot for such a machine. Both can be outdated.
func (c Config) Made() (disk, snapshot bool, err error) {
	c, _, err = c.resolved()
	if err != nil {
		return false, false, err
	}
	store, err := openStore()
	if err != nil {
		return false, false, err
	}
	spec, err := c.disk()
	if err != nil {
		return false, false, err
	}
	return store.Has(spec.Name), store.Has(snapshotName(spec.Name, c)), nil
}
