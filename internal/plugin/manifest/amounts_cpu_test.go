package manifest_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// TestCPUAmounts checks the one error of a pod with an impossible amount of a resource.
func TestCPUAmounts(t *testing.T) {
	const (
		right = "; write CPUs such as 2, or thousandths such as 500m"
		most  = " is more than 8192 CPUs, and no node has so many" + right
	)
	for spec, want := range map[string]string{
		"containers: [{name: c, resources: {requests: {cpu: -2}, limits: {cpu: -2}}}]":                "spec.containers[c].resources.requests.cpu: -2 is negative" + right,
		"containers: [{name: c, resources: {limits: {cpu: -1m}}}]":                                    "spec.containers[c].resources.limits.cpu: -1m is negative" + right,
		"containers: [{name: c}, {name: d, resources: {requests: {cpu: 2Gi}}}]":                       "spec.containers[d].resources.requests.cpu: 2Gi" + most,
		"containers: [{name: c, resources: {limits: {cpu: 9E}}}]":                                     "spec.containers[c].resources.limits.cpu: 9E" + most,
		"containers: [{name: c, resources: {requests: {cpu: 1e9}}}]":                                  "spec.containers[c].resources.requests.cpu: 1G" + most,
		"containers: [{name: c, resources: {requests: {cpu: '1e9'}}}]":                                "spec.containers[c].resources.requests.cpu: 1e9" + most,
		"containers: [{name: c, resources: {requests: {cpu: 8193}}}]":                                 "spec.containers[c].resources.requests.cpu: 8193" + most,
		"containers: [{name: c, resources: {requests: {cpu: 8192}}}]":                                 "",
		"containers: [{name: c, resources: {requests: {cpu: 1}, limits: {cpu: 1M}}}]":                 "",
		"containers: [{name: c, resources: {requests: {cpu: 1}, limits: {cpu: 2M}}}]":                 "spec.containers[c].resources.limits.cpu: 2M is more than 1000000 CPUs, and no node has so many" + right,
		"initContainers: [{name: i, resources: {requests: {cpu: two}}}], containers: []":              `spec.initContainers[i].resources.requests.cpu: "two" is no number of CPUs` + right,
		"containers: [{name: c, resources: {requests: {cpu: 1e999999999}}}]":                          `spec.containers[c].resources.requests.cpu: "1e999999999" is no number of CPUs` + right,
		"containers: [{name: c, resources: {requests: {cpu: true}}}]":                                 `spec.containers[c].resources.requests.cpu: "true" is no number of CPUs` + right,
		"containers: [{name: c, resources: {requests: {cpu: 1, memory: 1Gb}}}]":                       `spec.containers[c].resources.requests.memory: "1Gb" is no amount; write one such as 500m or 2Gi`,
		"containers: [{name: c, resources: {requests: {cpu: null, memory: 1e3}}}]":                    "",
		"containers: [{name: c}], resources: {requests: {cpu: 2Gi}}":                                  "spec.resources.requests.cpu: 2Gi" + most,
		"containers: [{name: c}], nodeSelector: {capacity: high}, overhead: {cpu: 1}":                 "",
		"containers: [{name: c}], overhead: {cpu: -4}":                                                "spec.overhead.cpu: -4 is negative" + right,
		"containers: [{name: c}], overhead: {cpu: abc}":                                               `spec.overhead.cpu: "abc" is no number of CPUs` + right,
		"containers: [{name: c}], ephemeralContainers: [{name: e, resources: {requests: {cpu: -1}}}]": "spec.ephemeralContainers[e].resources.requests.cpu: -1 is negative" + right,
		"containers: [{name: c, resources: {requests: {cpu: 0}, limits: {memory: 1.5Gi}}}]":           "",
		"containers: [{name: c, resources: {requests: {cpu: '1e12345', memory: [1]}}}]":               `spec.containers[c].resources.requests.cpu: "1e12345" is no number of CPUs` + right,
		"containers: [{name: c, resources: {requests: {hugepages-2Mi: 1x, memory: 1e1000}}}]":         `spec.containers[c].resources.requests.hugepages-2Mi: "1x" is no amount; write one such as 500m or 2Gi`,
		"containers: []":    "spec.containers: is empty; give at least one container",
		"hostNetwork: true": "spec.containers: is empty; give at least one container",
		"containers: [{resources: {requests: {cpu: x}}}]": `spec.containers[0].resources.requests.cpu: "x" is no number of CPUs` + right,
	} {
		_, errs := manifest.Objects([]byte("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {" + spec + "}}"))
		got := ""
		if len(errs) > 0 {
			got = errs[0].Error()
		}
		if want != "" {
			want = "line 1: Pod/a: " + want
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", spec, got, want)
		}
	}
}
