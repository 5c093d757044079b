// Package audit finds who runs, or may run, on CPUs that belong to somebody else.
//
// It has two halves. The pure one knows whose the CPUs are ([Ownership]), reads what
// the kernel prints (parse.go), and judges what was seen ([Judge]). The other one,
// [Watcher], looks at /proc again and again and writes nothing.
//
// What is known of tasks is sampled: where a task was last put, and how much more it
// has run since it was looked at before. A task that comes and goes between two looks
// is not seen; what it used is in [Score.Unseen]. Interrupts are not sampled: the
// kernel counts them for each CPU.
package audit
