// Package audit puts tasks and interrupts on the CPUs of an exclusive container, and checks that `cpupoold audit` finds exactly these.
package audit
