// Package cri is a guest test suite: pkg/cri against the real runtime of the
// node, with pods that the tests make over CRI themselves.
package cri
