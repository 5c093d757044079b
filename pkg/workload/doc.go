// Package workload reads the annotations by which pods request a management pool, and properties
// of their exclusive CPUs. It also converts requests for CPU to shares.
//
// Names and values are OpenShift's, so that manifests for it mean the same here. The domain can be
// another one. The document docs/reference/annotations.md lists them. The first form of a resources
// annotation has the domain in reverse (OpenShift enhancement management-workload-partitioning):
// io.openshift.workload.management.cpushares/etcd. It is read too. Its number
// are CFS shares, as in CRI-O and OpenShift's kubelet (docs/adr/0008-annotations.md).
//
// Every author of pods can write such annotations. So the parsers are strict and bounded: a value
// that no webhook writes is an error that names annotation, value and remedy.
package workload
