// Package switches records the task switches of CPUs with ftrace, as a reference for other measurements. It uses its own tracing
// instance. It reads the kernel's binary ring buffer, because the name of a task could contain a line break in the text of a trace.
package switches
