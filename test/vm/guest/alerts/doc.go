// Package alerts causes the symptoms of the alerts of deploy/monitoring on a node, and waits until a real Prometheus fires them, and ends
// them. Its tests run in a guest only.
package alerts
