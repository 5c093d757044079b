// Package tune tests on a real machine what becomes of its interrupts. Its tests run in a guest only.
package tune
