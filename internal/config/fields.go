package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Bounds of ResyncPeriod: a pass lists every container of the node, and a lost
// event must not go unnoticed for longer than an operator would wait.
const (
	minResync = time.Second
	maxResync = time.Hour
)

// maxQuiet bounds Quiet: what waits must come to pass on a node where somebody always has
// CPUs of its own.
const maxQuiet = 24 * time.Hour

// fields is the whole schema: every key that a file may have.
func (d *decoder) fields(c *Config) []field {
	return []field{
		{"apiVersion", d.scalar(mustBe(APIVersion))},
		{"kind", d.scalar(mustBe(Kind))},
		{"mode", d.scalar(func(s string) error { return setOneOf(&c.Mode, s, ModeEnforce, ModeObserve) })},
		{"partitions", func(key string, n *yaml.Node) { d.partitions(key, n, c) }},
		{"staticPods", func(key string, n *yaml.Node) { d.staticPods(key, n, &c.StaticPods) }},
		{"namespacePermission", d.scalar(func(s string) error { return setOneOf(&c.NamespacePermission, s, PermissionList, PermissionAnnotation) })},
		{"shared", func(key string, n *yaml.Node) {
			d.mapping(key, n, []field{{"cpus", d.cpus(func(s string) error { return setShared(&c.Pools, s) })}})
		}},
		{"guaranteed", func(key string, n *yaml.Node) { d.guaranteed(key, n, c) }},
		{"infraContainers", d.scalar(func(s string) error { return setInfra(&c.Pools.Infra, s) })},
		{"units", func(key string, n *yaml.Node) { d.units(key, n, c) }},
		{"hostSlices", func(key string, n *yaml.Node) { d.hostSlices(key, n, c) }},
		{"otherManagers", func(key string, n *yaml.Node) { d.otherManagers(key, n, &c.OtherManagers) }},
		{"systemPartition", func(key string, n *yaml.Node) { d.systemPartition(key, n, &c.SystemPartition) }},
		{"annotationDomain", d.scalar(func(s string) error { return setDomain(&c.AnnotationDomain, s) })},
		{"poolDomain", d.scalar(func(s string) error { return setDomain(&c.PoolDomain, s) })},
		{"containerRuntimeEndpoint", d.scalar(func(s string) error { return setEndpoint(&c.RuntimeEndpoint, s) })},
		{"kubeletStateDir", d.scalar(func(s string) error { return setDir(&c.KubeletStateDir, s) })},
		{"podResourcesSocket", d.scalar(func(s string) error { return setSocket(&c.PodResourcesSocket, s, podResources("/var/lib/kubelet")) })},
		{"nriSocket", d.scalar(func(s string) error { return setSocket(&c.NRISocket, s, nriSocket) })},
		{"stateDir", d.scalar(func(s string) error { return setDir(&c.StateDir, s) })},
		{"runDir", d.scalar(func(s string) error { return setDir(&c.RunDir, s) })},
		{"listenAddress", d.scalar(func(s string) error { return setAddress(&c.ListenAddress, s) })},
		{"resyncPeriod", d.scalar(func(s string) error { return setResync(&c.ResyncPeriod, s) })},
		{"quiet", d.scalar(func(s string) error { return setQuiet(&c.Quiet, s) })},
		{"weightFormula", d.scalar(func(s string) error {
			return setOneOf(&c.WeightFormula, s, WeightAuto, WeightLinear, WeightQuadratic)
		})},
		{"podSliceWeights", d.scalar(func(s string) error { return setBool(&c.PodSliceWeights, s) })},
		{"node", func(key string, n *yaml.Node) { d.node(key, n, c) }},
		{"depletion", func(key string, n *yaml.Node) { d.depletion(key, n, c) }},
		{"audit", func(key string, n *yaml.Node) {
			d.mapping(key, n, []field{{"interval", d.scalar(func(s string) error { return setAudit(&c.AuditInterval, s) })}})
		}},
		{"interrupts", func(key string, n *yaml.Node) { d.interrupts(key, n, &c.Interrupts) }},
		{"kernelThreads", d.scalar(func(s string) error {
			return setOneOf(&c.KernelThreads, s, KernelThreadsOff, KernelThreadsExclusive)
		})},
		{"power", func(key string, n *yaml.Node) { d.power(key, n, &c.Power) }},
		{"logLevel", d.scalar(func(s string) error { return setLevel(&c.LogLevel, s) })},
		{"logFormat", d.scalar(func(s string) error { return setOneOf(&c.LogFormat, s, LogText, LogJSON) })},
	}
}

func (d *decoder) partitions(key string, n *yaml.Node, c *Config) {
	d.sequence(key, n, func(key string, n *yaml.Node) {
		var p pools.PartitionSpec
		d.mapping(key, n, []field{
			{"type", d.scalar(func(s string) error { p.Type = s; return nil })},
			{"cpus", d.cpus(func(s string) error { return setPartitionCPUs(&p, s) })},
			{"namespaces", func(key string, n *yaml.Node) {
				d.sequence(key, n, d.scalar(func(s string) error {
					p.Namespaces = append(p.Namespaces, s)
					return nil
				}))
			}},
		})
		c.Pools.Partitions = append(c.Pools.Partitions, p)
	})
}

func mustBe(want string) func(string) error {
	return func(s string) error {
		if s != want {
			return fmt.Errorf("is not supported; write %s", want)
		}
		return nil
	}
}

func setPartitionCPUs(p *pools.PartitionSpec, s string) error {
	switch s {
	case "all":
		p.All = true
		return nil
	case "auto":
		p.Auto = true
		return nil
	}
	set, err := parseCPUs(s, "all, or auto")
	p.CPUs = set
	return err
}

func setShared(p *pools.Spec, s string) error {
	if s == "rest" {
		p.Shared = nil
		return nil
	}
	set, err := parseCPUs(s, "rest")
	if err == nil {
		p.Shared = &set
	}
	return err
}

// parseCPUs parses a list of at least one CPU; word is what the key accepts
// instead of a list.
func parseCPUs(s, word string) (cpuset.Set, error) {
	set, err := cpuset.Parse(s)
	switch {
	case errors.Is(err, cpuset.ErrRange):
		return cpuset.Set{}, fmt.Errorf("names a CPU above %d; write a list like 0-3,8, or %s", cpuset.MaxCPUs-1, word)
	case err != nil:
		return cpuset.Set{}, fmt.Errorf("is not a list of CPUs; write one like 0-3,8, or %s", word)
	case set.IsEmpty():
		return cpuset.Set{}, fmt.Errorf("names no CPU; write a list like 0-3,8, or %s", word)
	}
	return set, nil
}

// setDomain accepts a DNS subdomain (RFC 1123) that leaves room for the longest
// prefix put before it: the part of an annotation before its slash is at most
// 253 bytes long.
func setDomain(domain *string, s string) error {
	const longest = 253 - len("resources.")
	label := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	for part := range strings.SplitSeq(s, ".") {
		if len(s) > longest || !label.MatchString(part) {
			return fmt.Errorf("is not a DNS subdomain of at most %d bytes; write one like workload.openshift.io", longest)
		}
	}
	*domain = s
	return nil
}

func setEndpoint(endpoint *string, s string) error {
	if s != "" && s != NoRuntime && !filepath.IsAbs(strings.TrimPrefix(s, "unix://")) {
		return errors.New("is not a unix socket; write unix:///run/containerd/containerd.sock or the like, none, or leave the key out to look for it")
	}
	*endpoint = s
	return nil
}

func setDir(dir *string, s string) error {
	if !filepath.IsAbs(s) || filepath.Clean(s) != s || s == "/" {
		return errors.New("is not an absolute, clean path of a directory; write one like /var/lib/cpupoold")
	}
	*dir = s
	return nil
}

func setAddress(address *string, s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return errors.New("is not host:port; write one like 127.0.0.1:9466")
	}
	if host != "localhost" && net.ParseIP(host) == nil {
		return errors.New("has no IP address; write 127.0.0.1:PORT, or 0.0.0.0:PORT to serve every interface without authentication")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("has a port that is not in 0..65535")
	}
	*address = s
	return nil
}

func setResync(period *time.Duration, s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < minResync || d > maxResync {
		return fmt.Errorf("is not a duration in %v..%v; write one like 30s", minResync, maxResync)
	}
	*period = d
	return nil
}

func setQuiet(limit *time.Duration, s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d != 0 && (d < time.Second || d > maxQuiet) {
		return fmt.Errorf("is not 0 or a duration in %v..%v; write one like 10m", time.Second, maxQuiet)
	}
	*limit = d
	return nil
}

// Bounds of AuditInterval: an audit of 10,000 tasks takes tenths of a second.
const (
	minAudit = 10 * time.Second
	maxAudit = 24 * time.Hour
)

func setAudit(interval *time.Duration, s string) error {
	if s == "off" {
		*interval = 0
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < minAudit || d > maxAudit {
		return fmt.Errorf("is neither off nor a duration in %v..%v; write one like 1m", minAudit, maxAudit)
	}
	*interval = d
	return nil
}

func setBool(b *bool, s string) error {
	switch s {
	case "true":
		*b = true
	case "false":
		*b = false
	default:
		return errors.New("is neither true nor false")
	}
	return nil
}

func setLevel(level *slog.Level, s string) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	l, ok := levels[s]
	if !ok {
		return errors.New("is not a log level; write debug, info, warn or error")
	}
	*level = l
	return nil
}

func setOneOf[T ~string](to *T, s string, allowed ...T) error {
	for _, a := range allowed {
		if T(s) == a {
			*to = a
			return nil
		}
	}
	return fmt.Errorf("is not one of %q", allowed)
}
