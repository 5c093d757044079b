// Package evictor evicts pods from depleted nodes, in one replica of all: it elects that
// one, asks package eviction whose turn it is, and uses the Eviction API.
//
// It is a job of its own beside the webhook: it has rights of its own
// (deploy/webhook/eviction), and a webhook without them works as ever.
package evictor
