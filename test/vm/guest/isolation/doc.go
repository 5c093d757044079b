// Package isolation tests the exclusive CPUs in the kernel (build tag "guest"): it traces the tasks that run on them.
package isolation
