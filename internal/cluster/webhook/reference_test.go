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
		{Key: "types", Value: "workload types, each with `on`, `off` or `auto`", Default: "(`{management: auto}`)", Text: "Switches of workload types. Other types are off.", Example: "types: {management: \"on\"}"},
		{Key: "sharedCPUs", Value: aSwitch, Default: "auto", Text: "Switch of the resource of the shared pool.", Example: "sharedCPUs: \"on\""},
		{Key: "guaranteedCPUs", Value: aSwitch, Default: "auto", Text: "Switch of the resource of the guaranteed pool.", Example: "guaranteedCPUs: \"off\""},
		{Key: "exceptions.namespaces", Value: "list of namespaces", Default: "(none)", Text: "Namespaces whose pods request no resource of the shared and the guaranteed pool: docs/how-to/autoscale.md.", Example: "exceptions: {namespaces: [ci]}"},
		{Key: "exceptions.nodeLabels", Value: "labels of nodes, each with a list of values; an empty list stands for all values", Default: "(none)", Text: "Labels of node pools. Pods that can run only there request no resource of the shared and the guaranteed pool.", Example: "exceptions: {nodeLabels: {karpenter.sh/nodepool: [burst]}}"},
		{Key: "tolerateDepletion", Value: aBool, Default: "true", Text: "Adds the toleration of the taint of depleted nodes to pods with a CPU request and to pods of a workload type.", Example: "tolerateDepletion: false"},
		{Key: "depletion.eviction", Value: "`off`, `dryRun` or `on`", Default: "off", Text: "Evicts pods without a CPU request from depleted nodes that allow it. `dryRun` only reports them.", Example: "depletion: {eviction: dryRun}"},
		{Key: "depletion.evictionsPerMinute", Value: "number of pods, 1 to 60", Default: "6", Text: "Largest number of evictions in a minute, in the whole cluster.", Example: "depletion: {evictionsPerMinute: 2}"},
		{Key: "depletion.maxNodesPercent", Value: "percentage of nodes, 1 to 100", Default: "10", Text: "Percentage of depleted nodes above which the webhook evicts no pod. One depleted node never stops it.", Example: "depletion: {maxNodesPercent: 20}"},
		{Key: "depletion.after", Value: "duration, `0s` to `1h`", Default: "1m", Text: "Time for which a node must be depleted before the first eviction.", Example: "depletion: {after: 5m}"},
		{Key: "hostedPriority.enabled", Value: aBool, Default: "false", Text: "Gives pods of hosted control planes the priority class of their cluster's size: docs/how-to/hosted-control-planes.md.", Example: "hostedPriority: {enabled: true}"},
		{Key: "hostedPriority.sizesFrom", Value: "`config` or `ClusterSizingConfiguration`", Default: "config", Text: "Source of the size of a hosted cluster: the key sizes, or the sizes that HyperShift determines.", Example: "hostedPriority: {enabled: true, sizesFrom: ClusterSizingConfiguration}"},
		{
			Key: "hostedPriority.sizes", Value: "list of sizes, each with `name`, `maxNodes` (0 to 1000000; none: no limit), `dedicated` and classes. Classes are `controlPlane`, `apiCritical` (optional) and `etcd`, each with `name` and `value` (-2147483648 to 1000000000)",
			Default: "(xs to xxl and dedicated, as in docs/how-to/hosted-control-planes.md)", Text: "Sizes of hosted clusters by their number of worker nodes, the smallest first, with their priority classes.",
			Example: "hostedPriority: {enabled: true, sizes: [{name: small, maxNodes: 20, controlPlane: {name: hosted-small, value: 1000}, etcd: {name: hosted-etcd-small, value: 1500}}, {name: large, controlPlane: {name: hosted-large, value: 2000}, etcd: {name: hosted-etcd-large, value: 2500}}]}",
		},
		{Key: "allowUnaccounted", Value: aBool, Default: "false", Text: "Admits every resize. Nodes then advertise less of the pool.", Example: "allowUnaccounted: true"},
		{Key: "podLevel", Value: "`pod` or `container`", Default: "pod", Text: "CPUs of pods with `spec.resources`, as guaranteed.podLevel of the daemons.", Example: "podLevel: container"},
		{Key: "podLevelOverride", Value: aBool, Default: "false", Text: "Whether guaranteed.overrides of the daemons contains pod-level.", Example: "podLevelOverride: true"},
		{Key: "kubevirt", Value: aBool, Default: "false", Text: "Removes the node selector `kubevirt.io/cpumanager` from virtual machines that get the resource of the guaranteed pool: docs/how-to/run-kubevirt.md.", Example: "kubevirt: true"},
		{Key: "annotationDomain", Value: aDomain, Default: "workload.openshift.io", Text: "Domain of the annotations, as in the configuration of the daemons.", Example: "annotationDomain: cpu.example.com"},
		{Key: "poolDomain", Value: aDomain, Default: "openshift.io", Text: "Domain of the resources of the pools, as in the configuration of the daemons.", Example: "poolDomain: pools.example.com"},
		{Key: "certificates", Value: "`self` or `files`", Default: "self", Text: "With `self`, the program makes its certificate. With `files`, another program, such as cert-manager, writes the Secret.", Example: "certificates: files"},
		{Key: "certificateDir", Value: "absolute path of a directory", Default: "/etc/cpupool-webhook/tls", Text: "Directory with the mounted Secret.", Example: "certificateDir: /srv/tls"},
		{Key: "listenAddress", Value: anyPlace, Default: ":9443", Text: "Address of reviews, with TLS.", Example: "listenAddress: \":443\""},
		{Key: "metricsAddress", Value: anyPlace, Default: ":8080", Text: "Address of /metrics, without TLS.", Example: "metricsAddress: \":9090\""},
		{Key: "probeAddress", Value: anyPlace, Default: ":8081", Text: "Address of /healthz and /readyz, without TLS.", Example: "probeAddress: \":9091\""},
		{Key: "drainPeriod", Value: "duration, `0s` to `1m`", Default: "10s", Text: "Time of further service after the signal to end.", Example: "drainPeriod: 30s"},
		{Key: "logLevel", Value: "`debug`, `info`, `warn` or `error`", Default: "info", Text: "Lowest level of log records.", Example: "logLevel: debug"},
		{Key: "logFormat", Value: "`text` or `json`", Default: "text", Text: "Format of the log.", Example: "logFormat: json"},
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
	page := reference.Page{
		Title: "Keys of the configuration of cpupool-webhook",
		Head: []string{
			"This page lists each key of the configuration of cpupool-webhook. The configuration is one YAML file, by default /etc/cpupool-webhook/config.yaml. The program reads it at its start. Unknown keys are faults.",
			"Write durations like 30s, 5m and 1h.",
		},
		Header:  "apiVersion: " + APIVersion + "\nkind: " + Kind + "\n",
		Parse:   func(text string) (any, error) { return Parse([]byte(text)) },
		Entries: entries(),
	}
	for _, problem := range page.Check(keys(reflect.TypeFor[Config](), "")) {
		t.Error(problem)
	}
	page.Hold(t, *update, "../../../docs/reference/webhook-configuration.md", "../../../docs/reference/man/cpupool-webhook-config.5", "go test ./internal/cluster/webhook -run TestReference -update")
}
