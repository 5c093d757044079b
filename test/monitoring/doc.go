// Package monitoring checks the rules, the dashboard and the runbooks of
// deploy/monitoring against the table of metrics. It also checks that each rule fires for
// its symptom.
package monitoring
