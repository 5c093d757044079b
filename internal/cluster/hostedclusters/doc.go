// Package hostedclusters follows HyperShift's HostedClusters and NodePools. Package
// hostedpriority chooses the priority classes for pods of their control planes. Each replica
// of the webhook follows the objects; the elected one records the choice in annotations of
// the HostedClusters.
//
// HyperShift may be installed or removed later. While its CustomResourceDefinitions are
// missing, pods keep their classes, and the package looks for the definitions periodically.
package hostedclusters
