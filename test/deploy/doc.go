// Package deploy tests the chart and the kustomizations. They make the objects of the plain
// manifests of deploy/. The libraries of helm and kubectl render them, and the tests decode
// them as an API server does. helm's own commands install, upgrade, test and remove a release
// on an API server in memory, or on kube-apiserver with the tag apiserver.
package deploy
