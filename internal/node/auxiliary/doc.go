// Package auxiliary places the cgroups in the slices of pods that belong to no container. They
// are the monitors of CRI-O (conmon), the virtual machines of Kata Containers, and cgroups that
// other processes have made. Without a target they would run on the CPUs of owners, too.
package auxiliary
