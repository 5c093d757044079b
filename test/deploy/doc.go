// Package deploy tests what installs cpupoold: the chart and the kustomizations make
// the objects of the plain manifests of deploy/, rendered by the libraries of helm and
// kubectl, and decoded as an API server does.
package deploy
