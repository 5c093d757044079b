package migrate

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Format is one that Render writes.
type Format string

// CRIO is a drop-in of CRI-O, and Pinning is the kubelet's pinning file. MachineConfig has
// both and the kernel arguments. Kubelet is a part of a KubeletConfiguration. Kernel is a
// line of arguments. Systemd is a drop-in of system.conf with CPUAffinity.
const (
	CRIO          Format = "crio"
	Pinning       Format = "pinning"
	MachineConfig Format = "machineconfig"
	Kubelet       Format = "kubelet"
	Kernel        Format = "kernel"
	Systemd       Format = "systemd"
)

// Formats are all, in the order in which Render writes them.
func Formats() []Format { return []Format{CRIO, Pinning, MachineConfig, Kubelet, Kernel, Systemd} }

// Rendered is a file of one format.
type Rendered struct {
	Format Format
	// Name is the name of the file on the node.
	Name string
	Data []byte
}

const dropIn = "99-workload-pinning.conf"

type source struct {
	*config.Config
	management cpuset.Set // CPUs of all management pools that have lists
	role       string
	topology   *topology.Topology
}

// Render writes a configuration in one format. role is the role of a MachineConfig, a label
// of its nodes. The topology may be nil. It returns an error if the format has no key for
// this configuration.
func Render(c *config.Config, format Format, role string, t *topology.Topology) (Rendered, error) {
	c = on(c, t)
	s := source{Config: c, role: role, topology: t}
	for _, p := range c.Pools.Partitions {
		if p.Auto && p.CPUs.IsEmpty() {
			return Rendered{}, errAuto
		}
		s.management = s.management.Union(p.CPUs)
	}
	to, known := map[Format]struct {
		name   string
		render func() ([]byte, error)
	}{
		CRIO:          {dropIn, s.crio},
		Pinning:       {"openshift-workload-pinning", s.pinning},
		MachineConfig: {"99-" + role + "-cpu-pools.yaml", s.machineConfig},
		Kubelet:       {"kubelet-configuration.yaml", s.kubelet},
		Kernel:        {"kernel-arguments", s.kernel},
		Systemd:       {"99-cpu-affinity.conf", s.systemd},
	}[format]
	if !known {
		return Rendered{}, fmt.Errorf("%[1]s: %[1]q is no format; write one of %s", format, Formats())
	}
	data, err := to.render()
	if err != nil {
		return Rendered{}, fmt.Errorf("%s: %w", format, err)
	}
	return Rendered{format, to.name, data}, nil
}

// on returns c with the CPUs of cpus: auto on a machine, if the machine is known.
func on(c *config.Config, t *topology.Topology) *config.Config {
	if t == nil {
		return c
	}
	fixed := *c
	fixed.Pools = c.Pools.On(t)
	return &fixed
}

var (
	errAuto        = errors.New("partitions[].cpus is auto, and its CPUs depend on the machine; give the machine with --topology, or write a list")
	errNoPartition = errors.New("the configuration has no partitions: there is nothing to pin; write one")
	errNoList      = errors.New("which CPUs are the host's is not known; give a partition a list of CPUs, or guaranteed.cpus and --topology")
	errNoCPUs      = errors.New("neither a partition nor guaranteed.cpus nor guaranteed.claims.cpus is a list of CPUs: there is nothing to tell the kernel; write one")
)

func (s source) crio() ([]byte, error) {
	names := workload.Names{Domain: s.AnnotationDomain}
	runtime := map[string]any{}
	if len(s.Pools.Partitions) == 0 {
		return nil, errNoPartition
	}
	tables := map[string]any{}
	for _, p := range s.Pools.Partitions {
		tables[p.Type] = map[string]any{
			"activation_annotation": names.TargetKey(p.Type),
			"annotation_prefix":     strings.TrimSuffix(names.ResourcesKey(""), "/"),
			"resources":             map[string]any{"cpushares": 0, "cpuset": p.CPUs.String()},
		}
		if p.Type == s.Pools.Infra && !p.All {
			runtime["infra_ctr_cpuset"] = p.CPUs.String()
		}
	}
	runtime["workloads"] = tables
	if mixed := s.Pools.Guaranteed.Mixed.CPUs; !mixed.IsEmpty() {
		runtime["shared_cpuset"] = mixed.String()
	}
	var b bytes.Buffer
	e := toml.NewEncoder(&b)
	e.Indent = ""
	err := e.Encode(map[string]any{"crio": map[string]any{"runtime": runtime}})
	return b.Bytes(), err
}

func (s source) pinning() ([]byte, error) {
	if len(s.Pools.Partitions) == 0 {
		return nil, errNoPartition
	}
	types := map[string]map[string]string{}
	for _, p := range s.Pools.Partitions {
		types[p.Type] = map[string]string{"cpuset": p.CPUs.String()}
	}
	b, err := json.MarshalIndent(types, "", "  ")
	return append(b, '\n'), err
}

func (s source) kubelet() ([]byte, error) {
	const fragment = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
		"# With this policy the kubelet does not start if cpuManagerPolicyOptions are left, nor with reservedSystemCPUs next to systemReservedCgroup or\n" +
		"# kubeReservedCgroup: remove them. It does not start with the state of another policy either: stop it, remove\n" +
		"# /var/lib/kubelet/cpu_manager_state, start it.\ncpuManagerPolicy: none\n"
	if s.Pools.Guaranteed.Kubelet {
		return nil, errors.New("guaranteed.exclusive is kubelet: the kubelet's own policy stays as it is, see docs/how-to/static-kubelet.md")
	}
	reserved, why := s.management, ""
	if claims := s.Pools.Guaranteed.Claims.CPUs; !claims.IsEmpty() {
		reserved = reserved.Union(claims)
		why = fmt.Sprintf("# With CPUs %s of guaranteed.claims, which the scheduler must not count for other pods. Remove them if the feature gate\n"+
			"# DRANodeAllocatableResources is on in API server, scheduler and kubelet.\n", claims)
	}
	if reserved.IsEmpty() {
		return []byte(fragment), nil
	}
	return fmt.Appendf(nil, "%s%sreservedSystemCPUs: %q\n", fragment, why, reserved), nil
}

// arguments returns the kernel arguments. Host processes and interrupts get the management
// pools. If no pool has a list, they get all CPUs outside the guaranteed pool.
func (s source) arguments() (all []string, err error) {
	own := s.exclusive()
	if !own.IsEmpty() {
		all = append(all, "nohz_full="+own.String(), "rcu_nocbs="+own.String(), "isolcpus=managed_irq,"+own.String())
	}
	host := s.housekeeping()
	if !host.IsEmpty() && !own.IsEmpty() {
		all = append(all, "irqaffinity="+host.String())
	}
	if !host.IsEmpty() {
		all = append(all, "systemd.cpu_affinity="+host.String())
	}
	if len(all) == 0 {
		return nil, errNoCPUs
	}
	return all, nil
}

// exclusive returns the CPUs that can become exclusive. They contain the CPUs for ResourceClaims.
func (s source) exclusive() cpuset.Set { return s.fromPools().Union(s.Pools.Guaranteed.Claims.CPUs) }

// fromPools returns the CPUs that containers and units can get. With from: shared this is the whole shared
// pool, as on OpenShift. The set is empty if the shared pool is not known, or if no management pool
// is left for the host.
func (s source) fromPools() cpuset.Set {
	g := s.Pools.Guaranteed
	switch {
	case !g.FromShared || g.Kubelet:
		return g.CPUs
	case s.management.IsEmpty():
		return cpuset.Set{}
	case s.Pools.Shared != nil:
		return *s.Pools.Shared
	case s.topology != nil:
		return s.topology.Present.Difference(s.management.Union(g.Mixed.CPUs, g.Claims.CPUs))
	}
	return cpuset.Set{}
}

func (s source) housekeeping() cpuset.Set {
	switch own := s.Pools.Guaranteed.CPUs.Union(s.Pools.Guaranteed.Claims.CPUs); {
	case !s.management.IsEmpty():
		return s.management
	case own.IsEmpty():
		return cpuset.Set{}
	case s.topology != nil:
		return s.topology.Present.Difference(own)
	case s.Pools.Shared != nil:
		return *s.Pools.Shared
	}
	return cpuset.Set{}
}

func (s source) kernel() ([]byte, error) {
	all, err := s.arguments()
	return []byte(strings.Join(all, " ") + "\n"), err
}

func (s source) systemd() ([]byte, error) {
	host := s.housekeeping()
	if host.IsEmpty() {
		return nil, errNoList
	}
	// systemd adds a list to the lists of other files; an empty one clears them.
	return []byte("[Manager]\nCPUAffinity=\nCPUAffinity=" + host.String() + "\n"), nil
}

func (s source) machineConfig() ([]byte, error) {
	if s.role == "" || !isLabel(s.role) {
		return nil, fmt.Errorf("%q is not a role; write one such as worker or master", shorten(s.role))
	}
	file := func(path string, data []byte) map[string]any {
		url := "data:text/plain;charset=utf-8;base64," + base64.StdEncoding.EncodeToString(data)
		return map[string]any{"path": path, "mode": 0o644, "overwrite": true, "contents": map[string]any{"source": url}}
	}
	config := map[string]any{"ignition": map[string]any{"version": "3.2.0"}}
	spec := map[string]any{"config": config}
	arguments, noArguments := s.arguments()
	if noArguments == nil {
		spec["kernelArguments"] = arguments
	}
	crio, err := s.crio()
	if err != nil && noArguments != nil {
		return nil, err
	}
	if err == nil {
		pinning, err := s.pinning()
		if err != nil {
			return nil, err
		}
		config["storage"] = map[string]any{"files": []any{file("/etc/crio/crio.conf.d/"+dropIn, crio), file(PinningFile, pinning)}}
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err = e.Encode(map[string]any{
		"apiVersion": "machineconfiguration.openshift.io/v1",
		"kind":       "MachineConfig",
		"metadata": map[string]any{
			"name":   "99-" + s.role + "-cpu-pools",
			"labels": map[string]string{"machineconfiguration.openshift.io/role": s.role},
		},
		"spec": spec,
	})
	return b.Bytes(), err
}
