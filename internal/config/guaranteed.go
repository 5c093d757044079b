package config

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// NoRuntime is the value of containerRuntimeEndpoint without a runtime.
const NoRuntime = "none"

// guaranteed decodes the guaranteed pool. Resolve checks the fields of pools.Spec;
// "cpus: none" is not one of them.
func (d *decoder) guaranteed(key string, n *yaml.Node, c *Config) {
	g := &c.Pools.Guaranteed
	none := false
	d.mapping(key, n, []field{
		{"cpus", d.cpus(func(s string) error {
			none = s == "none"
			if none {
				return nil
			}
			set, err := parseCPUs(s, "none")
			g.CPUs = set
			return err
		})},
		{"from", d.scalar(func(s string) error {
			if s != string(pools.Shared) {
				return errors.New("is not supported; write shared, or leave the key out and write a list in cpus")
			}
			g.FromShared = true
			return nil
		})},
		{"floor", d.scalar(func(s string) error { return setFloor(g, s) })},
		{"exclusive", d.scalar(func(s string) error {
			return setWord(&g.Kubelet, s, map[string]bool{"cpupoold": false, "kubelet": true}, "is not known; write cpupoold or kubelet")
		})},
		{"options", func(key string, n *yaml.Node) { d.mapping(key, n, d.options(&c.Pools)) }},
		{"overrides", d.texts(&g.Overrides)},
		{"onRefusal", d.scalar(func(s string) error { return setOneOf(&c.OnRefusal, s, RefusalAuto, RefusalShared, RefusalFail) })},
		{"isolation", d.scalar(func(s string) error {
			return setOneOf(&c.Isolation, s, IsolationAuto, IsolationPartition, IsolationCPUSet)
		})},
		{"park", d.scalar(func(s string) error { return setBool(&c.Park, s) })},
		{"podLevel", d.scalar(func(s string) error { return setOneOf(&g.PodLevel, s, pools.PodLevelPod, pools.PodLevelContainer) })},
		{"memory", d.scalar(func(s string) error {
			return setWord(&g.BindMemory, s, map[string]bool{"bind": true, "any": false}, "is not known; write bind or any")
		})},
		{"mixed", func(key string, n *yaml.Node) { d.mixed(key, n, &g.Mixed) }},
	})
	if none && g.FromShared {
		d.fail(key+".from", string(pools.Shared), "guaranteed.cpus is none: no container gets exclusive CPUs; remove one of the two")
	}
	if c.Park {
		d.parks(key+".park", none, c)
	}
}

// parks refuses guaranteed.park without CPUs to park or without partitions.
func (d *decoder) parks(key string, none bool, c *Config) {
	switch {
	case c.Pools.Guaranteed.FromShared:
		d.fail(key, "true", "conflicts with guaranteed.from: free CPUs belong to the shared pool; remove one of the two, or write a list in guaranteed.cpus")
	case none || c.Pools.Guaranteed.CPUs.IsEmpty():
		d.fail(key, "true", "needs a list of CPUs in guaranteed.cpus")
	case c.Isolation == IsolationCPUSet:
		d.fail(key, "true", "needs cpuset partitions; add isolation: partition (kernel 6.11 or later) or auto (partitions from 7.0 on)")
	}
}

// options returns the options of allocation and, under the kubelet's name, the option of the
// shared pool about management CPUs.
func (d *decoder) options(spec *pools.Spec) []field {
	var fields []field
	for _, name := range allocate.OptionNames() {
		fields = append(fields, field{name, d.scalar(func(s string) error { return spec.Guaranteed.Options.Set(name, s) })})
	}
	return append(fields, field{"strict-cpu-reservation", d.scalar(func(s string) error { return setBool(&spec.StrictReservation, s) })})
}

// mixed decodes the shared CPUs that exclusive containers may use in addition. Resolve checks
// the fields of pools.Spec.
func (d *decoder) mixed(key string, n *yaml.Node, m *pools.Mixed) {
	d.mapping(key, n, []field{
		{"cpus", d.cpus(func(s string) error {
			if m.Shared = s == string(pools.Shared); m.Shared {
				return nil
			}
			set, err := parseCPUs(s, string(pools.Shared))
			m.CPUs = set
			return err
		})},
		{"namespaces", d.texts(&m.Namespaces)},
	})
}

// setInfra accepts a pool for pause containers: whether there is such a partition is
// seen by Resolve.
func setInfra(typ *string, s string) error {
	if *typ = s; s == string(pools.Shared) {
		*typ = ""
	}
	return nil
}

// units decodes a mapping from the names of systemd units.
func (d *decoder) units(key string, n *yaml.Node, c *Config) {
	if n.Kind != yaml.MappingNode {
		d.fail(key, n.Value, "must be a mapping from the names of systemd units, like du.service: {cpus: 4}")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := deref(n.Content[i]), deref(n.Content[i+1])
		u := pools.UnitSpec{Name: name.Value}
		child := join(key, u.Name)
		if _, seen := d.origins.lines[child]; seen {
			d.failAt(n.Content[i].Line, child, value.Value, "is set twice; keep one")
			continue
		}
		d.origins.lines[child] = n.Content[i].Line
		d.mapping(child, value, []field{
			{"cpus", d.scalar(func(s string) error { return setCount(&u.CPUs, s) })},
			{"pool", d.scalar(func(s string) error { u.Pool = s; return nil })},
		})
		c.Pools.Units = append(c.Pools.Units, u)
	}
}

// setCount accepts a number of CPUs. A list is the mistake to expect, since that
// is what pools have.
func setCount(to *int, s string) error {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n < 1 || n > cpuset.MaxCPUs {
		return fmt.Errorf("is not a number of CPUs in 1..%d", cpuset.MaxCPUs)
	}
	*to = int(n)
	return nil
}

// setFloor accepts a number of CPUs or a percentage of the shared pool.
func setFloor(g *pools.GuaranteedSpec, s string) error {
	part, isPercentage := strings.CutSuffix(s, "%")
	if !isPercentage {
		return setCount(&g.Floor, s)
	}
	n, err := strconv.ParseUint(part, 10, 7)
	if err != nil || n < 1 || n > 99 {
		return errors.New("is not a part of the shared pool; write 1% to 99%, or a number of CPUs")
	}
	g.FloorPercent = int(n)
	return nil
}

func setSocket(socket *string, s, example string) error {
	if s == "none" {
		*socket = ""
		return nil
	}
	file := strings.TrimPrefix(s, "unix://")
	if !filepath.IsAbs(file) || filepath.Clean(file) != file || file == "/" {
		return fmt.Errorf("is not a unix socket; write one like %s, or none", example)
	}
	*socket = file
	return nil
}

// podResources is the default of podResourcesSocket: where a kubelet listens
// that keeps its state in dir.
func podResources(dir string) string { return path.Join(dir, "pod-resources", "kubelet.sock") }
