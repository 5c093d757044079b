// Package isolation holds the tests of what the kernel makes of exclusive CPUs (build tag "guest"): its own record of who ran on them.
package isolation
