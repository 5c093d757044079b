// Package kubelet compares our choices of CPUs with the choices of the kubelet's static
// CPU manager policy, by running its own code: they are never worse, and faster. Its
// benchmarks also measure the allocator of dra-driver-cpu.
//
// It is a module of its own because it needs all of k8s.io/kubernetes. Building
// that takes minutes, so `make bench` runs it and CI does not: the choices in
// test/vectors/testdata/kubelet are recorded here, with
//
//	go -C bench/kubelet test -run TestRecord -record
//
// and go test ./test/vectors compares ours with them each time.
package kubelet
