package config

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
)

// NoRuntime is the value of containerRuntimeEndpoint without a runtime.
const NoRuntime = "none"

// guaranteed decodes the guaranteed pool. Resolve checks the fields of poolspec.Spec;
// "cpus: none" is not one of them.
func (d *decoder) guaranteed(key string, n *yaml.Node, c *Config) {
	g := &c.Pools.Guaranteed
	none := false
	d.mapping(key, n, []field{
		{"cpus", d.cpus(func(s string) (err error) {
			if none = s == "none"; !none {
				g.CPUs, err = parseCPUs(s, "none")
			}
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
		{"exclusive", word(d, &g.Kubelet, map[string]bool{"cpupoold": false, "kubelet": true}, "is not known; write cpupoold or kubelet")},
		{"options", func(key string, n *yaml.Node) { d.mapping(key, n, d.options(&c.Pools)) }},
		{"overrides", d.texts(&g.Overrides)},
		{"onRefusal", oneOf(d, &c.OnRefusal, RefusalAuto, RefusalShared, RefusalFail)},
		{"isolation", oneOf(d, &c.Isolation, IsolationAuto, IsolationPartition, IsolationCPUSet)},
		{"park", boolean(d, &c.Park)},
		{"podLevel", oneOf(d, &g.PodLevel, pools.PodLevelPod, pools.PodLevelContainer)},
		{"memory", word(d, &g.BindMemory, map[string]bool{"bind": true, "any": false}, "is not known; write bind or any")},
		{"mixed", func(key string, n *yaml.Node) { d.mixed(key, n, &g.Mixed) }},
		{"claims", func(key string, n *yaml.Node) { d.claims(key, n, &g.Claims) }},
	})
	if none && g.FromShared {
		d.fail(key+".from", string(pools.Shared), "guaranteed.cpus is none: no container gets exclusive CPUs; remove one of the two")
	}
	switch key := key + ".park"; { // it needs CPUs to park, and partitions
	case !c.Park:
	case g.FromShared:
		d.fail(key, "true", "conflicts with guaranteed.from: free CPUs belong to the shared pool; remove one of the two, or write a list in guaranteed.cpus")
	case none || g.CPUs.IsEmpty():
		d.fail(key, "true", "needs a list of CPUs in guaranteed.cpus")
	case c.Isolation == IsolationCPUSet:
		d.fail(key, "true", "needs cpuset partitions; add isolation: partition (kernel 6.11 or later) or auto (partitions from 7.0 on)")
	}
}

// options returns the options of allocation and, under the kubelet's name, the option of the
// shared pool about management CPUs.
func (d *decoder) options(spec *poolspec.Spec) []field {
	var fields []field
	for _, name := range allocate.OptionNames() {
		fields = append(fields, field{name, d.scalar(func(s string) error { return spec.Guaranteed.Options.Set(name, s) })})
	}
	return append(fields, field{"strict-cpu-reservation", boolean(d, &spec.StrictReservation)})
}

// mixed decodes the shared CPUs that exclusive containers may use in addition. Resolve checks
// the fields of poolspec.Spec.
func (d *decoder) mixed(key string, n *yaml.Node, m *pools.Mixed) {
	d.mapping(key, n, []field{
		{"cpus", d.cpus(func(s string) (err error) {
			if m.Shared = s == string(pools.Shared); !m.Shared {
				m.CPUs, err = parseCPUs(s, string(pools.Shared))
			}
			return err
		})},
		{"namespaces", d.texts(&m.Namespaces)},
	})
}

// claims decodes the CPUs of ResourceClaims. Resolve checks the fields of poolspec.Spec.
func (d *decoder) claims(key string, n *yaml.Node, c *poolspec.Claims) {
	d.mapping(key, n, []field{
		{"cpus", d.cpus(func(s string) (err error) {
			c.CPUs, err = parseCPUs(s, "remove the key "+key)
			return err
		})},
		{"idle", word(d, &c.Lend, map[string]bool{"unused": false, "shared": true}, "is not known; write unused or shared")},
	})
	if n.Kind == yaml.MappingNode && !d.origins.has(key+".cpus") {
		d.fail(key, "", "has no CPUs; add a list, like cpus: 8-11, or remove the key")
	}
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
	return setNumber(to, s, 1, cpuset.MaxCPUs, fmt.Sprintf("is not a number of CPUs in 1..%d", cpuset.MaxCPUs))
}

// setNumber accepts a number in least..most. Reason is the problem of other texts.
func setNumber[T ~int | ~uint64](to *T, s string, least, most uint64, reason string) error {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n < least || n > most {
		return errors.New(reason)
	}
	*to = T(n)
	return nil
}

// setFloor accepts a number of CPUs or a percentage of the shared pool.
func setFloor(g *poolspec.Guaranteed, s string) error {
	part, isPercentage := strings.CutSuffix(s, "%")
	if !isPercentage {
		return setCount(&g.Floor, s)
	}
	return setNumber(&g.FloorPercent, part, 1, 99, "is not a part of the shared pool; write 1% to 99%, or a number of CPUs")
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

// checkStaticKubelet refuses keys that conflict with a kubelet that allocates exclusive CPUs. Then the
// kubelet chooses the CPUs, and the shared pool is the kubelet's default set.
func (d *decoder) checkStaticKubelet(c *Config) {
	if !c.Pools.Guaranteed.Kubelet {
		return
	}
	const withStatic = " with guaranteed.exclusive: kubelet"
	for _, key := range slices.Sorted(maps.Keys(d.origins.lines)) {
		if parentKey(key) == "guaranteed" && key != "guaranteed.exclusive" {
			d.fail(key, "", "has no meaning"+withStatic+": the kubelet chooses the CPUs; remove one of the two")
		}
	}
	if c.Pools.Shared != nil {
		d.fail("shared.cpus", c.Pools.Shared.String(), "cannot be set"+withStatic+": the kubelet's default set is the shared pool; remove it")
	}
	if c.Pools.Infra != "" {
		d.fail("infraContainers", c.Pools.Infra, "cannot be set"+withStatic+": pause containers run on the CPUs of their pods; remove it")
	}
	for i, p := range c.Pools.Partitions {
		key, remedy := fmt.Sprintf("partitions[%d].cpus", i), "; write a list that the kubelet reserves (reservedSystemCPUs), or remove the partition"
		switch {
		case p.All:
			d.fail(key, "all", "cannot be used"+withStatic+": the list would change with each allocation of the kubelet"+remedy)
		case p.Auto:
			d.fail(key, "auto", "cannot be used"+withStatic+": the kubelet may allocate these CPUs to containers"+remedy)
		}
	}
	for _, u := range c.Pools.Units {
		switch {
		case u.CPUs > 0:
			d.fail("units."+u.Name+".cpus", fmt.Sprint(u.CPUs), "cannot be set"+withStatic+": the kubelet does not know units; write pool: with the type of a partition")
		case u.Pool == string(pools.Shared):
			d.fail("units."+u.Name+".pool", u.Pool, "cannot be used"+withStatic+": the kubelet takes CPUs from the shared pool without asking; write the type of a partition")
		}
	}
	if !c.HasRuntime() {
		d.fail("containerRuntimeEndpoint", NoRuntime, "cannot be used"+withStatic+": the kubelet has no containers without a runtime; remove one of the two")
	}
}

// PlacesPods reports whether pods may request a workload type. Otherwise only host services use
// the management pools.
func (c *Config) PlacesPods() bool {
	listed := func(p poolspec.Partition) bool { return len(p.Namespaces) > 0 }
	others := c.StaticPods.All || len(c.StaticPods.Namespaces) > 0 || c.NamespacePermission == PermissionAnnotation
	return slices.ContainsFunc(c.Pools.Partitions, listed) || others && len(c.Pools.Partitions) > 0
}
