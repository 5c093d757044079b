// Package cri is a guest test suite: pkg/cri against the real containerd of the
// node, with pods that the tests make over CRI themselves.
package cri
