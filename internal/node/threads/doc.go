// Package threads scans the threads of containers that the event loop reads only in part: a container with very many
// threads or cgroups. One goroutine scans them in turns, at most maxOpen at a time, so that a container does not delay
// the scans of the others. A scan that has not begun waits while maxOpen others are open. Pauses limit the CPU time. The
// package knows paths of cgroups, and no pods.
package threads
