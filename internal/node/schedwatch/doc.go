// Package schedwatch counts tasks that run on CPUs of another owner, by an eBPF program on the
// kernel's event sched_switch. It loads the program, sets the owners of CPUs and reads the counts.
//
// A task belongs to an owner if its cgroup is one of the owner's cgroups or below it. The program
// charges a task at its switch-out, from the later of its switch-in and the begin of the watch.
// On CPUs without an owner the program returns at once. Nothing is pinned: the kernel removes the
// program with the process.
//
// At a handover, the caller releases CPUs before the first write and sets the new owners after the
// last one. So the program compares no task with a stale owner.
package schedwatch
