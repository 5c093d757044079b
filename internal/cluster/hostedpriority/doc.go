// Package hostedpriority decides which priority classes the pods of hosted control planes
// get, from HyperShift's objects: a class by the size of the cluster, or the one that the
// HostedCluster's annotations name. It decides and does nothing else: the same objects give
// the same classes.
//
// The sizes, and what classes have to be, are those of HyperShift's proposal
// priority-class (openshift/hypershift, enhancements). HyperShift itself has shipped
// annotations that override its classes, and the ClusterSizingConfiguration: both are
// heeded here.
//
// A cluster's size never becomes less: what was chosen is kept in annotations of the
// HostedCluster ([Choice.Record]), which are also what other systems read.
package hostedpriority
