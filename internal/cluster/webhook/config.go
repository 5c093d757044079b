package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/cluster/evictor"
	"github.com/cpupoold/cpupoold/internal/cluster/hostedpriority"
	"github.com/cpupoold/cpupoold/internal/spelling"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// APIVersion and Kind are the required values in a configuration file.
const (
	APIVersion = "config.cpupoold.io/v1alpha1"
	Kind       = "CPUPoolWebhookConfiguration"
)

// Config holds all settings. The program reads it once, when it starts.
type Config struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`

	// Types are the switches of workload types: on, off or auto. Other types are off.
	// Default: management is auto.
	Types map[string]admission.Switch `yaml:"types"`

	// SharedCPUs and GuaranteedCPUs are the switches of the pools' resources.
	// Default: auto.
	SharedCPUs     admission.Switch `yaml:"sharedCPUs"`
	GuaranteedCPUs admission.Switch `yaml:"guaranteedCPUs"`

	// Exceptions select pods that request no resource of a pool, although the switches are on.
	Exceptions admission.Exceptions `yaml:"exceptions"`

	// TolerateDepletion lets pods with a CPU request be scheduled to nodes whose shared
	// pool is depleted. Default: true.
	TolerateDepletion bool `yaml:"tolerateDepletion"`

	// Depletion configures the eviction of pods from depleted nodes.
	Depletion evictor.Config `yaml:"depletion"`

	// HostedPriority configures priority classes of hosted control planes.
	HostedPriority hostedpriority.Config `yaml:"hostedPriority"`

	// AllowUnaccounted admits every resize. Nodes then advertise less: the CPUs that the
	// scheduler does not count are subtracted. Default: false.
	AllowUnaccounted bool `yaml:"allowUnaccounted"`

	// PodLevel states how the CPUs of Guaranteed pods with spec.resources are counted, as in
	// the daemon's configuration (guaranteed.podLevel). Default: pod.
	PodLevel admission.PodLevel `yaml:"podLevel"`

	// PodLevelOverride lets pods choose another podLevel by the annotation
	// cpupoold.io/pod-level. Set it if guaranteed.overrides of all nodes has pod-level.
	// Default: false.
	PodLevelOverride bool `yaml:"podLevelOverride"`

	// KubeVirt removes the node selector kubevirt.io/cpumanager from pods of virtual machines that
	// get the resource of the guaranteed pool. Default: false.
	KubeVirt bool `yaml:"kubevirt"`

	// AnnotationDomain is the domain of annotations and workload types, as in the
	// daemon's configuration. Default: workload.openshift.io.
	AnnotationDomain string `yaml:"annotationDomain"`

	// PoolDomain is the domain of the pools' resources. Default: openshift.io.
	PoolDomain string `yaml:"poolDomain"`

	// Certificates is the source of the server's certificate. Default: self.
	Certificates Certificates `yaml:"certificates"`

	// CertificateDir holds tls.crt and tls.key, the mounted Secret. Default:
	// /etc/cpupool-webhook/tls.
	CertificateDir string `yaml:"certificateDir"`

	// ListenAddress is host:port of the reviews, over TLS. Default: ":9443".
	ListenAddress string `yaml:"listenAddress"`

	// MetricsAddress and ProbeAddress are host:port of /metrics, and of /healthz and
	// /readyz, without TLS. Default: ":8080" and ":8081".
	MetricsAddress string `yaml:"metricsAddress"`
	ProbeAddress   string `yaml:"probeAddress"`

	// DrainPeriod is the time for which the program still serves after the signal to end,
	// 0s..1m. API servers notice the end only after a while. Default: 10s.
	DrainPeriod time.Duration `yaml:"drainPeriod"`

	// LogLevel is debug, info, warn or error. Default: info.
	LogLevel slog.Level `yaml:"logLevel"`

	// LogFormat is text or json. Default: text.
	LogFormat string `yaml:"logFormat"`
}

// Certificates is the source of certificates.
type Certificates string

// Sources of certificates. With CertificatesSelf, the program has its own certificate authority
// in a Secret, renews certificates in time, and writes the authority into the webhook
// configurations. With CertificatesFiles, other software does this, for example cert-manager.
const (
	CertificatesSelf  Certificates = "self"
	CertificatesFiles Certificates = "files"
)

// Default returns the configuration of an empty file.
func Default() Config {
	return Config{
		APIVersion:        APIVersion,
		Kind:              Kind,
		Types:             map[string]admission.Switch{"management": admission.SwitchAuto},
		SharedCPUs:        admission.SwitchAuto,
		GuaranteedCPUs:    admission.SwitchAuto,
		TolerateDepletion: true,
		Depletion:         evictor.Default(),
		HostedPriority:    hostedpriority.Default(),
		PodLevel:          admission.PodLevelPod,
		AnnotationDomain:  "workload.openshift.io",
		PoolDomain:        "openshift.io",
		Certificates:      CertificatesSelf,
		CertificateDir:    "/etc/cpupool-webhook/tls",
		ListenAddress:     ":9443",
		MetricsAddress:    ":8080",
		ProbeAddress:      ":8081",
		DrainPeriod:       10 * time.Second,
		LogFormat:         "text",
	}
}

// Load returns the configuration in the file at path, with defaults for missing keys. The error
// joins all errors in it.
func Load(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	c, err := Parse(data)
	if err != nil {
		return Config{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

// Parse is Load for the content of a file.
func Parse(data []byte) (Config, error) {
	const largest = 1 << 20 // a ConfigMap's limit
	if len(data) > largest {
		return Config{}, fmt.Errorf("is %d bytes long; the limit is %d", len(data), largest)
	}
	c := Default()
	c.APIVersion, c.Kind = "", ""
	// Types in the file replace the default ones.
	defaults := c.Types
	c.Types = nil
	d := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	err := d.Decode(&document)
	if errors.Is(err, io.EOF) {
		return c, c.check()
	}
	k := unknown{seen: map[visit]bool{}}
	if err == nil {
		k.correct("", &document, reflect.TypeFor[Config]())
		err = document.Decode(&c)
	}
	if err != nil {
		k.problems = append(k.problems, fmt.Errorf("does not match the schema: %s", strings.TrimPrefix(err.Error(), "yaml: ")))
		return Config{}, errors.Join(k.problems...)
	}
	if err := d.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return Config{}, errors.New("has more than one YAML document; keep one")
	}
	if c.Types == nil {
		c.Types = defaults
	}
	return c, errors.Join(append(k.problems, c.check())...)
}

func (c *Config) check() error {
	var problems []error
	wrong := func(key, value, reason string) {
		problems = append(problems, fmt.Errorf("%s: %q: %s", key, value, reason))
	}
	if c.APIVersion != APIVersion {
		wrong("apiVersion", c.APIVersion, "write "+APIVersion)
	}
	if c.Kind != Kind {
		wrong("kind", c.Kind, "write "+Kind)
	}
	for _, domain := range []struct{ key, value string }{{"annotationDomain", c.AnnotationDomain}, {"poolDomain", c.PoolDomain}} {
		if msgs := validation.IsDNS1123Subdomain(domain.value); len(msgs) > 0 {
			wrong(domain.key, domain.value, "is no domain; write one like openshift.io")
		}
	}
	names := c.Names()
	for _, typ := range slices.Sorted(maps.Keys(c.Types)) {
		// The name of a quota for the extended resource must be valid, too.
		if msgs := validation.IsQualifiedName("requests." + names.CoresResource(typ)); typ == "" || len(msgs) > 0 {
			wrong("types", typ, "is no name that a resource could start with; write lower case letters, digits and -")
		}
		c.checkSwitch("types."+typ, c.Types[typ], wrong)
	}
	c.checkSwitch("sharedCPUs", c.SharedCPUs, wrong)
	c.checkSwitch("guaranteedCPUs", c.GuaranteedCPUs, wrong)
	c.Exceptions.Check(wrong)
	if !c.PodLevel.Valid() {
		wrong("podLevel", string(c.PodLevel), "write pod or container")
	}
	c.Depletion.Check(wrong)
	c.HostedPriority.Check(wrong)
	if c.Certificates != CertificatesSelf && c.Certificates != CertificatesFiles {
		wrong("certificates", string(c.Certificates), "write self or files")
	}
	for _, address := range []struct{ key, value string }{
		{"listenAddress", c.ListenAddress}, {"metricsAddress", c.MetricsAddress}, {"probeAddress", c.ProbeAddress},
	} {
		if _, _, err := net.SplitHostPort(address.value); err != nil {
			wrong(address.key, address.value, "is no address; write host:port, like :9443")
		}
	}
	if c.DrainPeriod < 0 || c.DrainPeriod > time.Minute {
		wrong("drainPeriod", c.DrainPeriod.String(), "is out of range; write 0s to 1m")
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		wrong("logFormat", c.LogFormat, "write text or json")
	}
	return errors.Join(problems...)
}

// checkSwitch calls wrong unless a switch has a valid value.
func (c *Config) checkSwitch(key string, is admission.Switch, wrong func(key, value, reason string)) {
	if is != admission.SwitchOn && is != admission.SwitchOff && is != admission.SwitchAuto {
		wrong(key, string(is), "write on, off or auto")
	}
}

// Names returns the names of annotations and resources.
func (c *Config) Names() workload.Names {
	return workload.Names{Domain: c.AnnotationDomain, PoolDomain: c.PoolDomain}
}

func (c *Config) switches() admission.Switches {
	return admission.Switches{Types: c.Types, SharedCPUs: c.SharedCPUs, GuaranteedCPUs: c.GuaranteedCPUs, Others: admission.Settings{
		Names: c.Names(), TolerateDepletion: c.TolerateDepletion, PodLevel: c.PodLevel, PodLevelOverride: c.PodLevelOverride, KubeVirt: c.KubeVirt, Exceptions: c.Exceptions,
	}}
}

// unknown finds the unknown keys of a YAML document.
type unknown struct {
	seen     map[visit]bool // an alias can stand for a node that has the alias
	problems []error
}

// visit is a node that is decoded into a type.
type visit struct {
	node *yaml.Node
	of   reflect.Type
}

// correct reports the unknown keys of a node that is decoded into a type. A misspelt key gets the
// name that is meant, so that the problems of its value are reported, too. Other unknown keys are
// removed.
func (k *unknown) correct(path string, n *yaml.Node, t reflect.Type) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if k.seen[visit{n, t}] {
		return
	}
	k.seen[visit{n, t}] = true
	switch {
	case n.Kind == yaml.DocumentNode:
		for _, root := range n.Content {
			k.correct(path, root, t)
		}
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for i, item := range n.Content {
			k.correct(fmt.Sprintf("%s[%d]", strings.TrimSuffix(path, "."), i)+".", item, t.Elem())
		}
	case n.Kind == yaml.SequenceNode: // of mappings that are merged
		for _, item := range n.Content {
			k.correct(path, item, t)
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		k.mapping(path, n, t)
	}
}

// mapping is correct for a mapping and a struct.
func (k *unknown) mapping(path string, n *yaml.Node, t reflect.Type) {
	var known, written []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		known = append(known, name)
	}
	for i := 0; i < len(n.Content); i += 2 {
		written = append(written, n.Content[i].Value)
	}
	var kept []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			kept = append(kept, key, value)
			k.correct(path, value, t)
			continue
		}
		at := slices.Index(known, key.Value)
		if at < 0 {
			meant := spelling.Near(key.Value, known)
			remedy := "known here: " + strings.Join(known, ", ")
			if meant != "" {
				remedy = "did you mean " + meant + "?"
			}
			k.problems = append(k.problems, fmt.Errorf("line %d: %s%s: %q: is not a known key; %s", key.Line, path, key.Value, value.Value, remedy))
			if meant == "" || slices.Contains(written, meant) {
				continue
			}
			written = append(written, meant)
			at = slices.Index(known, meant)
			key = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: meant, Line: key.Line}
		}
		kept = append(kept, key, value)
		k.correct(path+key.Value+".", value, t.Field(at).Type)
	}
	n.Content = kept
}
