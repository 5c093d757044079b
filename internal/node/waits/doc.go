// Package waits limits the time for which the runtime waits for replies about containers.
//
// The runtime sends one NRI request at a time. A reply that waits for CPUs or for the
// kubelet delays every other creation on the node. Budget grants each request the time that
// its reply may wait. All waits together use at most a twentieth of the time, and a burst of
// 2.5 seconds. Waits below 100 ms are free.
//
// A pod that has not waited in the last hour may wait for 100 ms in any case. So pods that
// retry do not take the kubelet's answer from others. The package is pure.
package waits
