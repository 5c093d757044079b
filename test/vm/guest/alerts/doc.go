// Package alerts causes on a node what the alerts of deploy/monitoring are for, and waits until a real Prometheus fires them, and ends them.
// Its tests run in a guest only.
package alerts
