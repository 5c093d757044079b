// Package live tests the live audit on a bare kernel (build tag "guest"), and compares its counts with an ftrace record of the same time.
package live
