// Package audit finds foreign tasks and foreign interrupts: tasks on exclusive CPUs of another
// owner or on CPUs of another pool, and device interrupts on exclusive CPUs.
//
// [Ownership] holds the pools and owners of CPUs, the Parse functions read files of /proc, and
// [Evaluate] makes a report from the evidence. They are pure. [Watcher] scans /proc repeatedly, and
// writes nothing.
//
// A scan notes the CPU of a task and its CPU time since the previous scan. It misses tasks that
// start and exit between two scans: [Score.Unseen] is the CPU time of such tasks. Interrupts are
// exact, because the kernel counts them for each CPU.
package audit
