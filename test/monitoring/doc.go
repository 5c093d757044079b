// Package monitoring holds the rules, the dashboard and the runbooks of deploy/monitoring
// to the table of metrics, and the rules to what they are for.
package monitoring
