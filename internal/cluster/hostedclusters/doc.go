// Package hostedclusters follows HyperShift's HostedClusters and NodePools, asks package
// hostedpriority which priority classes pods of their control planes get, and writes the
// answer into annotations of the HostedClusters.
//
// HyperShift may come later, or go: while its CustomResourceDefinitions are missing, pods
// are left alone, and what is there is looked at again every now and then. All replicas of
// the webhook follow and write alike; who is late writes what is there.
package hostedclusters
