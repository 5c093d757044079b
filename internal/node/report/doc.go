// Package report makes the archive for a bug report, and takes the names out of it that
// are nobody else's business.
package report
