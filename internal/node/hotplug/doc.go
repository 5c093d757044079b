// Package hotplug receives the kernel's notifications of CPUs that go offline or online.
//
// The kernel sends a uevent for each CPU, as a netlink message (netlink(7),
// NETLINK_KOBJECT_UEVENT). No file of sysfs reports the change to a watcher. Messages can be
// lost, so a notification has no content: the receiver reads sysfs again. The kernel has updated
// the cpusets before the message arrives.
package hotplug
