package lint_test

import (
	"strings"
	"testing"
)

// TestClaims checks the findings about ResourceClaims.
func TestClaims(t *testing.T) {
	const claim = `apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec:
  devices:
    requests:
    - {name: cpus, exactly: {deviceClassName: CLASS, capacity: {requests: {cpu.cpupoold.io/cpus: AMOUNT}}}}
    - {name: nic, exactly: {deviceClassName: nic}}
---
`
	const class = `apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: mine}
spec: {selectors: [{cel: {expression: 'device.driver == "cpu.cpupoold.io"'}}]}
---
`
	const template = `apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: t}
spec:
  spec:
    devices:
      requests:
      - name: cpus
        firstAvailable:
        - {name: many, deviceClassName: exclusive-cpus.cpupoold.io, capacity: {requests: {cpu.cpupoold.io/cpus: "0"}}}
---
`
	const ours = "exclusive-cpus.cpupoold.io"
	pod := func(kind, name, spec, entry, resources string) string {
		p := "resourceClaims: [{name: e, " + entry + "}], containers: [{name: a, image: x, resources: {" + resources + "}}]"
		if kind == "Pod" {
			return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {" + p + "}\n---\n"
		}
		version := map[string]string{"Job": "batch/v1"}[kind]
		if version == "" {
			version = "apps/v1"
		}
		return "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec: {" + spec + " template: {spec: {" + p + "}}}\n---\n"
	}
	of := func(class, amount string) string {
		return strings.NewReplacer("CLASS", class, "AMOUNT", amount).Replace(claim)
	}
	gpu := func(amount string) string {
		return strings.Replace(of("gpu", amount), "cpu.cpupoold.io/cpus", "gpu.example.com/memory", 1)
	}
	const named, whole, small = "resourceClaimName: c", "limits: {cpu: 2, memory: 1Gi}, ", "limits: {cpu: 1m, memory: 1Gi}, "
	const several = "claim \"c\" has CPUs, which are for one pod, and several pods use it"
	const both = "container \"a\" runs on the CPUs of its claim alone, and its request of cpu: 2 counts in addition"
	const either = `apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: r, firstAvailable: [{name: a, deviceClassName: exclusive-cpus.cpupoold.io}, {name: b, deviceClassName: gpu}]}]}}
---
`
	const absent = "container \"a\" uses claim \"cpus\", and spec.resourceClaims does not have it, so the API server refuses the pod"
	const misspelt = "Kubernetes 1.37 does not know field spec.devices.requests[0].exactly.capacity.request, and the API server removes it"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"one pod":                      {of(ours, "4") + pod("Pod", "p", "", named, "claims: [{name: e}]"), nil},
		"two pods":                     {of(ours, "4") + pod("Pod", "p", "", named, "") + pod("Pod", "q", "", named, ""), []string{several, several}},
		"two replicas":                 {of(ours, "4") + pod("Deployment", "d", "replicas: 2,", named, ""), []string{several}},
		"one replica":                  {of(ours, "4") + pod("Deployment", "d", "", named, ""), nil},
		"a DaemonSet":                  {of(ours, "4") + pod("DaemonSet", "d", "", named, ""), []string{several}},
		"a Job":                        {of(ours, "4") + pod("Job", "j", "parallelism: 3,", named, ""), []string{several}},
		"another class":                {gpu("4") + pod("Deployment", "d", "replicas: 2,", named, ""), nil},
		"a class of the files":         {class + of("mine", "4") + pod("Deployment", "d", "replicas: 2,", named, ""), []string{several}},
		"a template":                   {strings.Replace(template, `"0"`, "4", 1) + pod("Deployment", "d", "replicas: 2,", "resourceClaimTemplateName: t", "claims: [{name: e}]"), nil},
		"whole CPUs too":               {of(ours, "4") + pod("Pod", "p", "", named, whole+"claims: [{name: e}]"), []string{both}},
		"a small request":              {of(ours, "4") + pod("Pod", "p", "", named, small+"claims: [{name: e}]"), nil},
		"whole CPUs without the claim": {of(ours, "4") + pod("Pod", "p", "", named, whole), nil},
		"whole CPUs and the NIC":       {of(ours, "4") + pod("Pod", "p", "", named, whole+"claims: [{name: e, request: nic}]"), nil},
		"whole CPUs and the CPUs":      {of(ours, "4") + pod("Pod", "p", "", named, whole+"claims: [{name: e, request: cpus}]"), []string{both}},
		"an unknown class with CPUs":   {of("later", "4") + pod("Deployment", "d", "replicas: 2,", named, ""), []string{several}},
		"two pods, CPUs or a GPU":      {either + pod("Deployment", "d", "replicas: 2,", named, ""), []string{several}},
		"whole CPUs and maybe CPUs":    {either + pod("Pod", "p", "", named, whole+"claims: [{name: e}]"), nil},
		"no such entry":                {of(ours, "4") + pod("Pod", "p", "", named, "claims: [{name: cpus}]"), []string{absent}},
		"Burstable with whole CPUs":    {of(ours, "4") + pod("Pod", "p", "", named, "requests: {cpu: 2}, limits: {cpu: 2}, claims: [{name: e}]"), []string{both}},
		"a request without a limit":    {of(ours, "4") + pod("Pod", "p", "", named, "requests: {cpu: 2}, claims: [{name: e}]"), []string{both}},
		"less than a CPU, and a limit": {of(ours, "4") + pod("Pod", "p", "", named, "requests: {cpu: 999m}, limits: {cpu: 2}, claims: [{name: e}]"), nil},
		"a fraction above a CPU":       {of(ours, "4") + pod("Pod", "p", "", named, "requests: {cpu: 1500m}, claims: [{name: e}]"), []string{strings.Replace(both, "cpu: 2", "cpu: 1500m", 1)}},
		"a misspelt field":             {strings.Replace(of(ours, "4"), "requests: {cpu.", "request: {cpu.", 1), []string{misspelt}},
		"a fraction":                   {of(ours, "1500m"), []string{"request cpus is for 1500m CPUs, and the scheduler rounds it up to whole CPUs or cores"}},
		"a fraction of another driver": {gpu("1500m"), nil},
		"no CPU":                       {template, []string{"request cpus/many is for 0 CPUs, and the scheduler rounds it up to whole CPUs or cores"}},
		"an old version": {strings.Replace(of(ours, "4"), "/v1", "/v1beta2", 1),
			[]string{`it cannot be read: apiVersion "resource.k8s.io/v1beta2": want resource.k8s.io/v1; save it with kubectl of Kubernetes 1.34 or later`}},
	} {
		var got []string
		for _, f := range check(t, settings(), c.text) {
			got = append(got, f.Message)
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: findings are %q; want %q", name, got, c.want)
		}
	}
}
