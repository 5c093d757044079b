// Package power computes the frequency governor, the energy preference and the idle states that
// containers request for their exclusive CPUs, as values of files in sysfs.
//
// [Parse] and [Plan] are pure. [Read] and [Host] read sysfs. Package tune decides about each
// write: it records the original first, reads the value back, and restores the original when no
// container requests the setting.
package power
