package testnode

import (
	"errors"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Walk calls visit for p and all cgroups below it, each before its children, siblings in order of
// name. Cgroups that are removed in the meantime are left out. Only a missing p is an error. An
// error of visit ends the walk.
func Walk(f *cgroup.FS, p cgroup.Path, visit func(cgroup.Path) error) error {
	children, err := f.Children(p)
	if err != nil {
		return err
	}
	return walk(f, p, children, visit)
}

func walk(f *cgroup.FS, p cgroup.Path, children []cgroup.Path, visit func(cgroup.Path) error) error {
	if err := visit(p); err != nil {
		return err
	}
	for _, child := range children {
		below, err := f.Children(child)
		if errors.Is(err, cgroup.ErrGone) {
			continue
		}
		if err == nil {
			err = walk(f, child, below, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
