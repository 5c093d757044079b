package vm

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/test/vm/internal/image"
)

// Runtime is the container runtime of a node, and its setup.
type Runtime struct {
	// Name is one of these:
	//
	//   - "containerd" (the default): containerd 2 and runc, both from their Go modules;
	//   - "containerd-debian": containerd 2.1, crun and CNI plugins of Debian forky, where only the kubelet is compiled;
	//   - "containerd-1.7": containerd 1.7 and runc 1.1 of Debian 13, with which NRI is off;
	//   - "containerd-crun": containerd 2 with crun of Debian, which takes less emulation;
	//   - "crio-runc" and "crio-crun": CRI-O from its Go module, conmon of Debian, and runc from its Go module or crun of Debian.
	Name string

	// NRIOff turns NRI off in containerd 2.
	NRIOff bool

	// Cgroupfs has containerd 2 and the kubelet make cgroups by themselves, instead of through systemd.
	Cgroupfs bool

	// PodEvents turns CRI-O's stream of events on, which is off by default.
	PodEvents bool
}

// part holds the inputs of one runtime, see image.Spec.
type part struct {
	trees, layers, packages []string
	suite                   string // the only one that has it; "" for any
}

func runtimes() map[string]part {
	built := []string{"tools", "containerd"}
	return map[string]part{
		"containerd": {trees: built, layers: []string{"containerd", "containerd-2", "containerd-unit"}},
		"containerd-debian": {layers: []string{"containerd", "containerd-2", "containerd-package", "containerd-crun", "containerd-debian"},
			packages: []string{"containerd", "containernetworking-plugins", "crun"}, suite: "forky"},
		"containerd-1.7":  {trees: []string{"tools"}, layers: []string{"containerd", "containerd-package", "containerd-1.7"}, packages: []string{"containerd", "runc"}, suite: "trixie"},
		"containerd-crun": {trees: built, layers: []string{"containerd", "containerd-2", "containerd-unit", "containerd-crun"}, packages: []string{"crun"}},
		"crio-runc":       {trees: []string{"tools", "crio"}, layers: []string{"crio"}, packages: []string{"conmon"}},
		"crio-crun":       {trees: []string{"tools", "crio"}, layers: []string{"crio", "crun"}, packages: []string{"conmon", "crun"}},
	}
}

// Disk returns the description of the disk of a machine with configuration c.
func (c Config) Disk() (image.Spec, error) {
	c, _, err := c.resolved()
	if err != nil {
		return image.Spec{}, err
	}
	return c.disk()
}

// disk returns the inputs of the disk of a machine with the resolved configuration c.
func (c Config) disk() (image.Spec, error) {
	if !c.Node {
		if c.Runtime != (Runtime{}) {
			return image.Spec{}, fmt.Errorf("check runtime %q: a runtime needs Node", c.Runtime.Name)
		}
		return image.Spec{Name: "base-" + c.Suite, Suite: c.Suite, Packages: c.packages()}, nil
	}
	name := c.Runtime.Name
	if name == "" {
		name = "containerd"
	}
	all := runtimes()
	p, ok := all[name]
	if !ok {
		return image.Spec{}, fmt.Errorf("find runtime %q: not one of %s", name, known(all))
	}
	if p.suite != "" && p.suite != c.Suite {
		return image.Spec{}, fmt.Errorf("check suite %s: %s is in %s only", c.Suite, name, p.suite)
	}
	if name != "containerd" && (c.Runtime.NRIOff || c.Runtime.Cgroupfs) {
		return image.Spec{}, errors.New("check runtime: NRIOff and Cgroupfs are for containerd 2, not for " + name)
	}
	if c.Runtime.PodEvents && !strings.HasPrefix(name, "crio-") {
		return image.Spec{}, errors.New("check runtime: PodEvents is for CRI-O, not for " + name)
	}
	label := []string{"node", c.Suite, name}
	for _, option := range []struct {
		on    bool
		layer string
	}{{c.Runtime.NRIOff, "nri-off"}, {c.Runtime.Cgroupfs, "cgroupfs"}, {c.Runtime.PodEvents, "pod-events"}} {
		if option.on {
			label = append(label, option.layer)
			p.layers = append(p.layers, option.layer)
		}
	}
	return image.Spec{
		Name: strings.Join(label, "-"), Suite: c.Suite, Packages: append(c.packages(), p.packages...),
		Trees: append([]string{"node"}, p.trees...), Layers: p.layers,
	}, nil
}

// packages returns the packages that a suite lacks for every machine. In forky, systemd only recommends its libraries for mounts and
// system call filters.
func (c Config) packages() []string {
	if c.Suite == "forky" {
		return []string{"libseccomp2", "mount"}
	}
	return nil
}
