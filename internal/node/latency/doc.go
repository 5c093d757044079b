// Package latency measures interruptions of free CPUs with the kernel's tracers osnoise and timerlat.
//
// [Candidates] decides which CPUs may be measured, and [Parser] reads the text of a trace. They are
// pure. [Run] starts a tracer in a tracing instance of its own, reads its trace, and restores all
// tracing settings.
//
// A journal in the directory for state has the original settings before Run changes the first one.
// Run restores them at the end, after a signal and after an error. A killed process restores nothing,
// and its tracer keeps running: the next Run ends it first. A lock excludes a second Run.
package latency
