// Package walk visits the cgroups of a tree, of the kernel or of a fake node.
package walk

import (
	"errors"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Cgroups calls visit for p and all cgroups below it, each before its children, siblings in order of
// name. Cgroups that are removed in the meantime are left out. Only a missing p is an error. An
// error of visit ends the walk.
func Cgroups(f *cgroup.FS, p cgroup.Path, visit func(cgroup.Path) error) error {
	children, err := f.Children(p)
	if err != nil {
		return err
	}
	return each(f, p, children, visit)
}

func each(f *cgroup.FS, p cgroup.Path, children []cgroup.Path, visit func(cgroup.Path) error) error {
	if err := visit(p); err != nil {
		return err
	}
	for _, child := range children {
		below, err := f.Children(child)
		if errors.Is(err, cgroup.ErrGone) {
			continue
		}
		if err == nil {
			err = each(f, child, below, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
