package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
)

// fields is the whole schema: every key that a file may have.
func (d *decoder) fields(c *Config) []field {
	return []field{
		{"apiVersion", d.scalar(mustBe(APIVersion))},
		{"kind", d.scalar(mustBe(Kind))},
		{"mode", oneOf(d, &c.Mode, ModeEnforce, ModeObserve)},
		{"partitions", func(key string, n *yaml.Node) { d.partitions(key, n, c) }},
		{"staticPods", func(key string, n *yaml.Node) { d.staticPods(key, n, &c.StaticPods) }},
		{"namespacePermission", oneOf(d, &c.NamespacePermission, PermissionList, PermissionAnnotation)},
		{"shared", func(key string, n *yaml.Node) {
			d.mapping(key, n, []field{{"cpus", d.cpus(func(s string) error { return setShared(&c.Pools, s) })}})
		}},
		{"guaranteed", func(key string, n *yaml.Node) { d.guaranteed(key, n, c) }},
		{"infraContainers", d.scalar(func(s string) error { // Resolve checks that there is such a partition
			if c.Pools.Infra = s; s == string(pools.Shared) {
				c.Pools.Infra = ""
			}
			return nil
		})},
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
		// A pass lists every container of the node, and a lost event must not go unnoticed for long.
		{"resyncPeriod", d.duration(&c.ResyncPeriod, time.Second, time.Hour, "", "30s")},
		// The deferred work must end on a node where owners always have exclusive CPUs.
		{"quiet", d.duration(&c.Quiet, time.Second, 24*time.Hour, "0", "10m")},
		{"weightFormula", oneOf(d, &c.WeightFormula, WeightAuto, WeightLinear, WeightQuadratic)},
		{"podSliceWeights", boolean(d, &c.PodSliceWeights)},
		{"node", func(key string, n *yaml.Node) { d.node(key, n, c) }},
		{"depletion", func(key string, n *yaml.Node) { d.depletion(key, n, c) }},
		{"audit", func(key string, n *yaml.Node) {
			// An audit of 10,000 tasks takes tenths of a second.
			d.mapping(key, n, []field{
				{"interval", d.duration(&c.AuditInterval, 10*time.Second, 24*time.Hour, "off", "1m")},
				{"live", boolean(d, &c.AuditLive)},
			})
		}},
		{"interrupts", func(key string, n *yaml.Node) { d.interrupts(key, n, &c.Interrupts) }},
		{"kernelThreads", oneOf(d, &c.KernelThreads, KernelThreadsOff, KernelThreadsExclusive)},
		{"power", func(key string, n *yaml.Node) { d.power(key, n, &c.Power) }},
		{"logLevel", word(d, &c.LogLevel, map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}, "is not a log level; write debug, info, warn or error")},
		{"logFormat", oneOf(d, &c.LogFormat, LogText, LogJSON)},
	}
}

func (d *decoder) partitions(key string, n *yaml.Node, c *Config) {
	d.sequence(key, n, func(key string, n *yaml.Node) {
		var p poolspec.Partition
		d.mapping(key, n, []field{
			{"type", d.scalar(func(s string) error { p.Type = s; return nil })},
			{"cpus", d.cpus(func(s string) error { return setPartitionCPUs(&p, s) })},
			{"namespaces", d.texts(&p.Namespaces)},
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

func setPartitionCPUs(p *poolspec.Partition, s string) (err error) {
	if p.All, p.Auto = s == "all", s == "auto"; !p.All && !p.Auto {
		p.CPUs, err = parseCPUs(s, "all, or auto")
	}
	return err
}

func setShared(p *poolspec.Spec, s string) error {
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

// parseCPUs parses a list of at least one CPU. The key accepts word instead of a list.
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

// setDomain accepts a DNS subdomain (RFC 1123). With the longest prefix it has at most
// 253 bytes, the limit of the part of an annotation before its slash.
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

// duration accepts a duration in least..most, and zero for 0 unless that is empty.
func (d *decoder) duration(to *time.Duration, least, most time.Duration, zero, example string) func(string, *yaml.Node) {
	form := map[string]string{"": "not", "0": "not 0 or", "off": "neither off nor"}[zero]
	return d.scalar(func(s string) error {
		value, err := time.ParseDuration(s)
		switch {
		case zero != "" && (s == zero || zero == "0" && value == 0 && err == nil):
			value = 0
		case err != nil || value < least || value > most:
			return fmt.Errorf("is %s a duration in %v..%v; write one like %s", form, least, most, example)
		}
		*to = value
		return nil
	})
}

// texts collects the items of a list.
func (d *decoder) texts(to *[]string) func(string, *yaml.Node) {
	return func(key string, n *yaml.Node) {
		d.sequence(key, n, d.scalar(func(s string) error {
			*to = append(*to, s)
			return nil
		}))
	}
}

// word returns the decode function of a key with a value for each word. Reason is the problem of other words.
func word[T any](d *decoder, to *T, words map[string]T, reason string) func(string, *yaml.Node) {
	return d.scalar(func(s string) error {
		value, ok := words[s]
		if !ok {
			return errors.New(reason)
		}
		*to = value
		return nil
	})
}

func boolean(d *decoder, to *bool) func(string, *yaml.Node) {
	return word(d, to, map[string]bool{"true": true, "false": false}, "is neither true nor false")
}

// oneOf returns the decode function of a key with some allowed values.
func oneOf[T ~string](d *decoder, to *T, allowed ...T) func(string, *yaml.Node) {
	return d.scalar(func(s string) error { return setOneOf(to, s, allowed...) })
}

func setOneOf[T ~string](to *T, s string, allowed ...T) error {
	if !slices.Contains(allowed, T(s)) {
		return fmt.Errorf("is not one of %q", allowed)
	}
	*to = T(s)
	return nil
}

// staticPods decodes a word or a list of namespaces. The default is allow, because the author of a
// manifest on a node is root there.
func (d *decoder) staticPods(key string, n *yaml.Node, to *pools.StaticPods) {
	if n.Kind == yaml.SequenceNode {
		*to = pools.StaticPods{}
		label := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) // RFC 1123
		d.sequence(key, n, d.scalar(func(s string) error {
			switch {
			case !label.MatchString(s):
				return errors.New("is not the name of a namespace; write each name in full")
			case slices.Contains(to.Namespaces, s):
				return errors.New("is listed twice; remove one")
			}
			to.Namespaces = append(to.Namespaces, s)
			return nil
		}))
		return
	}
	if n.Kind != yaml.ScalarNode {
		d.fail(key, "", "is neither a word nor a list; write allow, ignore, or a list of namespaces")
		return
	}
	word(d, &to.All, map[string]bool{"allow": true, "ignore": false}, "is not known; write allow, ignore, or a list of namespaces")(key, n)
}
