// Package workload is the contract by which pods ask for a management CPU pool:
// the names of the annotations, what their values mean, and how a request for
// CPU becomes shares.
//
// A pod names one workload type. Per container there may be an annotation with
// the CPU resources that a webhook took out of the pod's spec, so that the
// scheduler does not count them:
//
//	target.workload.openshift.io/management: {"effect":"PreferredDuringScheduling"}
//	resources.workload.openshift.io/etcd:    {"cpushares":409,"cpulimit":500}
//
// Names and values are those of OpenShift, so that manifests that were written
// for it mean the same here; the domain can be another one. The first form of
// the second annotation, with the domain in reverse, is read too (OpenShift
// enhancement management-workload-partitioning):
//
//	io.openshift.workload.management.cpushares/etcd: 409
//
// Its number are CFS shares too, although the enhancement writes milliCPU there: CRI-O
// and OpenShift's kubelet took shares (docs/adr/0008-annotations.md).
//
// Anybody who may create a pod can write such annotations. Reading is therefore
// strict and bounded: a value is exactly what a webhook writes, or it is an error
// that says which annotation, which value, and what to do. Whether a pod may ask
// for a type at all is not decided here.
package workload
