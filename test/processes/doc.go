// Package processes runs kube-apiserver and etcd, and other programs, for tests on this
// machine: on loopback, with files in the test's directory, ended with the test.
package processes
