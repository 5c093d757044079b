// Package othermanagers recognizes other managers of CPUs: by the names of their programs, and
// by the annotations of pods that request CPUs from them.
package othermanagers
