package cgroup

// Diff returns the writes that bring the cgroups from what they are to what
// they should be, in an order of which every prefix is safe, and what cannot be
// written now. See the package comment for the order and why it is safe.
func Diff(targets []Target, current map[Path]Current, o Options) ([]Write, []Deferred) {
	return nil, nil
}
