package webhook

import (
	"flag"
	"reflect"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/reference"
)

var update = flag.Bool("update", false, "write the pages that list the keys")

// Descriptions of values.
const (
	aSwitch  = "`on`, `off` or `auto`"
	aBool    = "`true` or `false`"
	aDomain  = "DNS subdomain"
	anyPlace = "IP address, or nothing for all, and TCP port"
)

func entries() []reference.Entry {
	return []reference.Entry{
		{Key: "apiVersion", Value: "`config.cpupoold.io/v1alpha1`", Text: "Version of the file's format.", Example: "apiVersion: config.cpupoold.io/v1alpha1"},
		{Key: "kind", Value: "`CPUPoolWebhookConfiguration`", Text: "Kind of the file.", Example: "kind: CPUPoolWebhookConfiguration"},
		{Key: "types", Value: "workload types, each with `on`, `off` or `auto`", Default: "(`{management: auto}`)", Text: "The switches of workload types. Types that are not named are off.", Example: "types: {management: \"on\"}"},
		{Key: "sharedCPUs", Value: aSwitch, Default: "auto", Text: "The switch of the shared pool's resource.", Example: "sharedCPUs: \"on\""},
		{Key: "guaranteedCPUs", Value: aSwitch, Default: "auto", Text: "The switch of the guaranteed pool's resource.", Example: "guaranteedCPUs: \"off\""},
		{Key: "tolerateDepletion", Value: aBool, Default: "true", Field: "Config.TolerateDepletion", Example: "tolerateDepletion: false"},
		{Key: "depletion.eviction", Value: "`off`, `dryRun` or `on`", Default: "off", Text: "Whether pods without a CPU request are evicted from nodes that allow it.", Example: "depletion: {eviction: dryRun}"},
		{Key: "depletion.evictionsPerMinute", Value: "number of pods, 1 to 60", Default: "6", Field: "Config.EvictionsPerMinute", Example: "depletion: {evictionsPerMinute: 2}"},
		{Key: "depletion.maxNodesPercent", Value: "percentage of nodes, 1 to 100", Default: "10", Field: "Config.MaxNodesPercent", Example: "depletion: {maxNodesPercent: 20}"},
		{Key: "depletion.after", Value: "duration, `0s` to `1h`", Default: "1m", Field: "Config.After", Example: "depletion: {after: 5m}"},
		{Key: "hostedPriority.enabled", Value: aBool, Default: "false", Text: "Whether pods of hosted control planes get the priority class of their cluster's size: docs/how-to/hosted-control-planes.md.", Example: "hostedPriority: {enabled: true}"},
		{Key: "hostedPriority.sizesFrom", Value: "`config` or `ClusterSizingConfiguration`", Default: "config", Field: "Config.SizesFrom", Example: "hostedPriority: {enabled: true, sizesFrom: ClusterSizingConfiguration}"},
		{
			Key: "hostedPriority.sizes", Value: "list of sizes, each with `name`, `maxNodes` (0 to 1000000; none: no limit), `dedicated`, and the classes `controlPlane`, `apiCritical` (may be left out) and `etcd`, each with `name` and `value` (-2147483648 to 1000000000)",
			Default: "(xs to xxl and dedicated, as in docs/how-to/hosted-control-planes.md)", Text: "The sizes of hosted clusters by their number of worker nodes, the smallest first, with their priority classes.",
			Example: "hostedPriority: {enabled: true, sizes: [{name: small, maxNodes: 20, controlPlane: {name: hosted-small, value: 1000}, etcd: {name: hosted-etcd-small, value: 1500}}, {name: large, controlPlane: {name: hosted-large, value: 2000}, etcd: {name: hosted-etcd-large, value: 2500}}]}",
		},
		{Key: "allowUnaccounted", Value: aBool, Default: "false", Field: "Config.AllowUnaccounted", Example: "allowUnaccounted: true"},
		{Key: "podLevel", Value: "`pod` or `container`", Default: "pod", Field: "Config.PodLevel", Example: "podLevel: container"},
		{Key: "podLevelOverride", Value: aBool, Default: "false", Field: "Config.PodLevelOverride", Example: "podLevelOverride: true"},
		{Key: "annotationDomain", Value: aDomain, Default: "workload.openshift.io", Field: "Config.AnnotationDomain", Example: "annotationDomain: cpu.example.com"},
		{Key: "poolDomain", Value: aDomain, Default: "openshift.io", Field: "Config.PoolDomain", Example: "poolDomain: pools.example.com"},
		{Key: "certificates", Value: "`self` or `files`", Default: "self", Field: "Config.Certificates", Example: "certificates: files"},
		{Key: "certificateDir", Value: "absolute path of a directory", Default: "/etc/cpupool-webhook/tls", Field: "Config.CertificateDir", Example: "certificateDir: /srv/tls"},
		{Key: "listenAddress", Value: anyPlace, Default: ":9443", Field: "Config.ListenAddress", Example: "listenAddress: \":443\""},
		{Key: "metricsAddress", Value: anyPlace, Default: ":8080", Text: "Where /metrics is served, without TLS.", Example: "metricsAddress: \":9090\""},
		{Key: "probeAddress", Value: anyPlace, Default: ":8081", Text: "Where /healthz and /readyz are served, without TLS.", Example: "probeAddress: \":9091\""},
		{Key: "drainPeriod", Value: "duration, `0s` to `1m`", Default: "10s", Field: "Config.DrainPeriod", Example: "drainPeriod: 30s"},
		{Key: "logLevel", Value: "`debug`, `info`, `warn` or `error`", Default: "info", Text: "The least important level that is logged.", Example: "logLevel: debug"},
		{Key: "logFormat", Value: "`text` or `json`", Default: "text", Text: "The form of the log's lines.", Example: "logFormat: json"},
	}
}

// keys returns the keys of a struct from its tags.
func keys(of reflect.Type, prefix string) (all []string) {
	for field := range of.Fields() {
		key := prefix + field.Tag.Get("yaml")
		if field.Type.Kind() == reflect.Struct {
			all = append(all, keys(field.Type, key+".")...)
			continue
		}
		all = append(all, key)
	}
	return all
}

// TestReference compares docs/reference/webhook-configuration.md and cpupool-webhook-config(5) with the
// configuration that the program reads.
func TestReference(t *testing.T) {
	comments, err := reference.Comments(".", "../evictor", "../hostedpriority")
	if err != nil {
		t.Fatal(err)
	}
	page := reference.Page{
		Title: "Keys of the configuration of cpupool-webhook",
		Head: []string{
			"One YAML file, by default /etc/cpupool-webhook/config.yaml, which is read once, when the program starts. What it is about is in docs/how-to/install-webhook.md.",
			"Durations are written like 30s, 5m and 1h.",
		},
		Header:  "apiVersion: " + APIVersion + "\nkind: " + Kind + "\n",
		Parse:   func(text string) (any, error) { return Parse([]byte(text)) },
		Entries: entries(), Comments: comments,
	}
	for _, problem := range page.Check(keys(reflect.TypeFor[Config](), "")) {
		t.Error(problem)
	}
	page.Hold(t, *update, "../../../docs/reference/webhook-configuration.md", "../../../docs/reference/man/cpupool-webhook-config.5", "go test ./internal/cluster/webhook -run TestReference -update")
}
