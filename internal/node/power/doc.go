// Package power knows the frequency governor, the energy preference and the idle states
// of CPUs: what containers ask of the CPUs that they have for themselves, and what the
// files of sysfs must hold for it.
//
// [Parse] and [Plan] are pure. [Read] and the [Host] read sysfs; what is written goes
// through package tune, which has the originals on record first, reads back, and gives
// everything back when nobody asks any more.
package power
