// Package switches records the task switches of CPUs with ftrace, as a reference for other measurements. It uses a tracing instance of its
// own, and reads the kernel's binary ring buffer: in the text of a trace, the name of a task could contain a line break.
package switches
