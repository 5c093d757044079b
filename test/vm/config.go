package vm

import (
	"fmt"
	"slices"
	"strings"
)

// Config describes the machine to start. The zero value is a plain systemd guest with eight CPUs.
type Config struct {
	// Topology names the machine's CPUs and NUMA nodes:
	//
	//   - 2c1n and 4c1n: one socket and node;
	//   - 8c2n (the default): 8 CPUs in 2 sockets and 2 nodes;
	//   - 16c2s2t: 16 CPUs, 2 sockets and nodes of 4 cores with 2 threads;
	//   - 32c4n: 32 CPUs, 2 sockets of 8 cores with 2 threads, 2 nodes in each;
	//   - 16c2d4l: 16 CPUs, one socket with 2 dies and nodes, in each of them 2 L3s of 2 cores with 2 threads.
	Topology string

	// Node adds a container runtime and a kubelet to systemd.
	Node bool

	// Runtime is the node's container runtime. The zero value is containerd 2 with runc and its defaults: with NRI, on systemd's
	// cgroups.
	Runtime Runtime

	// Suite is the release of Debian. The default, trixie, has systemd 257 and Linux 6.12, and bookworm has systemd 252 and Linux 6.1.
	// The unreleased forky has the newest versions: at the time of writing 262 and 7.2.
	Suite string

	// Kernel is another flavour of the suite's kernel, for RunKernelTests only: "rt" is the real-time kernel. Debian's other kernels have
	// no tracers osnoise and timerlat. By default, guests boot the kernel for cloud machines.
	Kernel string

	// Cold boots a node from power-on. Otherwise it continues from a snapshot in which it has just become ready: the same, much faster.
	Cold bool

	// Memory in MiB, by default 2048. It must be a multiple of the number of NUMA nodes.
	Memory int

	// KernelArgs are added to the kernel's command line, such as isolcpus=2-3.
	KernelArgs []string
}

// resolved returns c with its defaults filled in, and its topology.
func (c Config) resolved() (Config, topology, error) {
	if c.Topology == "" {
		c.Topology = "8c2n"
	}
	if c.Memory == 0 {
		c.Memory = 2048
	}
	if c.Suite == "" {
		c.Suite = "trixie"
	}
	if !slices.Contains(suites(), c.Suite) {
		return Config{}, topology{}, fmt.Errorf("find suite %q: not one of %s", c.Suite, strings.Join(suites(), ", "))
	}
	if c.Kernel != "" && c.Kernel != "rt" {
		return Config{}, topology{}, fmt.Errorf("find kernel %q: want rt, or none for the default", c.Kernel)
	}
	t, err := findTopology(c.Topology)
	if err != nil {
		return Config{}, topology{}, err
	}
	if c.Memory < 512 || c.Memory%t.nodes != 0 {
		return Config{}, topology{}, fmt.Errorf("check memory %d MiB: less than 512, or no multiple of the %d nodes of %s", c.Memory, t.nodes, c.Topology)
	}
	return c, t, nil
}

func suites() []string { return []string{"bookworm", "trixie", "forky"} }
