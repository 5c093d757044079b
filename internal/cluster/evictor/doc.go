// Package evictor evicts pods from depleted nodes with the Eviction API. It works in one
// elected replica, in the order of package eviction.
//
// It is independent of the webhook in the same program: it needs rights of its own
// (deploy/webhook/eviction), and the webhook works without them.
package evictor
