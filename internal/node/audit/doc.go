// Package audit finds tasks and interrupts on exclusive CPUs of another owner, and tasks on
// CPUs of another pool.
//
// [Ownership] holds the pools and owners of CPUs, the Parse functions read files of /proc, and
// [Judge] makes a report from the evidence. They are pure. [Watcher] samples /proc
// repeatedly, and writes nothing.
//
// A sample of a task has its CPU and the CPU time since the previous sample. A task that
// starts and exits between two samples is not seen: [Score.Unseen] is the CPU time of such
// tasks. Interrupts are not sampled, because the kernel counts them for each CPU.
package audit
