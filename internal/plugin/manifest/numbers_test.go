package manifest_test

import (
	"errors"
	"testing"

	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// TestRefused checks the error of a workload that the API server refuses, and of impossible amounts
// in a template of an unknown kind. Objects and Rewrite return the same error.
func TestRefused(t *testing.T) {
	const (
		pod     = "template: {spec: {containers: [{name: c}]}}"
		rollout = "apiVersion: a.io/v1, kind: Rollout, spec: {template: {spec: {containers: [{name: c, image: i, resources: {limits: {cpu: "
	)
	for object, want := range map[string]string{
		"apiVersion: v1, kind: Pod":                                                                        "Pod/a: spec.containers: is empty; give at least one container",
		"apiVersion: v1, kind: Pod, spec: {containers: []}":                                                "Pod/a: spec.containers: is empty; give at least one container",
		"apiVersion: apps/v1, kind: Deployment, spec: {template: {}}":                                      "Deployment/a: spec.containers: is empty; give at least one container",
		"apiVersion: apps/v1, kind: Deployment, spec: {replicas: -3, " + pod + "}":                         `Deployment/a: spec.replicas: "-3" is no number of pods; write 0 to 2147483647`,
		"apiVersion: apps/v1, kind: Deployment, spec: {replicas: many, " + pod + "}":                       `Deployment/a: spec.replicas: "many" is no number of pods; write 0 to 2147483647`,
		"apiVersion: apps/v1, kind: Deployment, spec: {replicas: null, " + pod + "}":                       "",
		"apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0, " + pod + "}":                          "",
		"apiVersion: batch/v1, kind: Job, spec: {parallelism: -1, " + pod + "}":                            `Job/a: spec.parallelism: "-1" is no number of pods; write 0 to 2147483647`,
		"apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {completions: -1, " + pod + "}}}": `CronJob/a: spec.jobTemplate.spec.completions: "-1" is no number of pods; write 0 to 2147483647`,
		rollout + "abc}}}]}}}":          `Rollout/a: spec.containers[c].resources.limits.cpu: "abc" is no number of CPUs; write CPUs such as 2, or thousandths such as 500m`,
		rollout + "1e999}}}]}}}":        `Rollout/a: spec.containers[c].resources.limits.cpu: "1e999" is no number of CPUs; write CPUs such as 2, or thousandths such as 500m`,
		rollout + "-3}}}]}}}":           "Rollout/a: spec.containers[c].resources.limits.cpu: -3 is negative; write CPUs such as 2, or thousandths such as 500m",
		rollout + "'{{ .cpu }}'}}}]}}}": "",
		rollout + "'${CPU}'}}}]}}}":     "",
		rollout + "2}}}]}}}":            "",
	} {
		if want != "" {
			want = "line 1: " + want
		}
		data := []byte("{" + object + ", metadata: {name: a}}")
		_, errs := manifest.Objects(data)
		_, err := manifest.Rewrite(data, same)
		for _, err := range []error{errors.Join(errs...), err} {
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s:\ngot  %s\nwant %s", object, got, want)
			}
		}
	}
}
