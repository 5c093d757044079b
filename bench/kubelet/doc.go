// Package kubelet holds our choices of CPUs against those of the kubelet's static
// CPU manager policy, by running its own code: never worse, and how much faster.
//
// It is a module of its own because it needs all of k8s.io/kubernetes. Building
// that takes minutes, so `make bench` runs it and CI does not: the choices in
// test/vectors/testdata/kubelet are recorded here, with
//
//	go -C bench/kubelet test -run TestRecord -record
//
// and go test ./test/vectors holds ours against them each time.
package kubelet
