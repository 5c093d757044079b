// Package tune tests the tuning of interrupts on a real machine. Its tests run in a guest only.
package tune
