// Package clustercheck examines the nodes of a cluster before cpupoold is installed. It judges
// the objects of the API and the configurations of the kubelets, and states the facts that it
// does not have. The command reads them.
package clustercheck
