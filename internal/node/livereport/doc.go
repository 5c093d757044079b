// Package livereport makes the report of a live audit. A live audit counts each task that the
// kernel ran on exclusive CPUs: the readings of package schedwatch.
//
// [Collector] adds readings, and holds a bounded number of rows, because tenants choose the
// names of commands. Its method Report compares the owners of CPUs before and after the audit,
// and examines only CPUs that kept their owners. The package is pure.
package livereport
