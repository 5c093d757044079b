// Package hotplug hears from the kernel that CPUs come and go.
//
// The kernel tells of each by a uevent, a netlink message (netlink(7),
// NETLINK_KOBJECT_UEVENT): nothing in sysfs can be watched for it. Messages may be
// lost, so they say that something has changed and not what: whoever hears one reads
// sysfs again. The cpusets have been updated by the kernel when it arrives.
package hotplug
