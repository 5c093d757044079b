// Package hostedpriority chooses the priority classes of pods of hosted control planes, from
// HyperShift's objects. The class follows from the size of the cluster or from annotations of
// the HostedCluster. The package is pure: the same objects give the same classes.
//
// Sizes and rules for classes follow HyperShift's proposal priority-class
// (openshift/hypershift, enhancements). Annotations that override classes and the
// ClusterSizingConfiguration are part of HyperShift already; the package supports both.
//
// The size of a cluster never decreases: annotations of the HostedCluster hold the choice
// ([Choice.Record]). Other systems read them, too.
package hostedpriority
