// Package threads scans the threads of containers that the event loop reads only in part: a container with very many
// threads or cgroups. One goroutine scans all of them in turns, so that no container delays the scan of another for
// longer than its turn. Pauses limit the CPU time. The package knows paths of cgroups, and no pods.
package threads
