// Package report writes the archive of a bug report. [Redactor] replaces names of
// namespaces, pods, units and other objects. A name has the same replacement everywhere.
package report
