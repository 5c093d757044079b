// Package audit plants tasks and interrupts on the CPUs of an exclusive container, and sees whether `cpupoold audit` finds them, and nobody
// else.
package audit
