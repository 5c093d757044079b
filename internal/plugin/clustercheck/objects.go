package clustercheck

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/findings"
	"github.com/cpupoold/cpupoold/internal/othermanagers"
)

// managers returns the other managers of CPUs that run in the cluster.
func (in *Input) managers() []findings.Finding {
	var all []findings.Finding
	for i := range in.DaemonSets {
		d := &in.DaemonSets[i]
		if d.Status.DesiredNumberScheduled == 0 {
			continue
		}
		subject, names := "DaemonSet "+d.Namespace+"/"+d.Name, namesOf(d)
		for _, m := range othermanagers.Managers() {
			if slices.ContainsFunc(names, m.Is) {
				all = append(all, named("nri-plugins", m.Finding(subject, false))...)
				break
			}
		}
		if d.Name == "tuned" {
			all = append(all, named("tuned", othermanagers.Tuned(subject))...)
		}
	}
	if in.Partitioning == "AllNodes" {
		all = append(all, named("crio-workloads", othermanagers.Workload("Infrastructure cluster: status.cpuPartitioning AllNodes",
			in.Names.TargetKey("management"), "install a cluster without workload partitioning"))...)
	}
	return all
}

// namesOf returns the names by which a DaemonSet is recognized: its own, and the names of its
// containers, their images and their programs.
func namesOf(d *appsv1.DaemonSet) []string {
	names := []string{d.Name}
	for _, c := range d.Spec.Template.Spec.Containers {
		image, _, _ := strings.Cut(path.Base(c.Image), "@")
		image, _, _ = strings.Cut(image, ":")
		names = append(names, c.Name, image)
		if len(c.Command) > 0 {
			names = append(names, path.Base(c.Command[0]))
		}
	}
	return names
}

// quotas returns the quotas that reject pods which the webhook has changed: it replaces
// requests of cpu by requests of a pool's resource.
func (in *Input) quotas() []findings.Finding {
	var all []findings.Finding
	for i := range in.Quotas {
		q := &in.Quotas[i]
		for _, key := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
			hard := q.Spec.Hard[key]
			f := findings.Finding{Check: "quota", Severity: findings.Info, Subject: fmt.Sprintf("ResourceQuota %s/%s: %s", q.Namespace, q.Name, key)}
			resource := strings.TrimPrefix(string(key), "requests.")
			_, cores := in.Names.CoresType(resource)
			switch {
			case cores || resource == in.Names.SharedResource() || resource == in.Names.GuaranteedResource():
				f.Severity = findings.Warning
				f.Found = fmt.Sprintf("is %s: the quota rejects pods that exceed it, after the webhook has added this resource", hard.String())
				f.Remedy = "raise the limit to the CPUs of the namespace's pods in thousandths, or remove it"
			case slices.Contains([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU}, key):
				f.Found = fmt.Sprintf("is %s: the quota rejects pods of a workload type, whose containers have no cpu", hard.String())
				f.Remedy = fmt.Sprintf("remove %s, or keep pods of workload types in a namespace without it", key)
			default:
				continue
			}
			all = append(all, f)
		}
	}
	return all
}
