// Package disturbance counts the effects of CPU handovers on a neighbour with exclusive CPUs, on a machine without containers (build tag
// "guest").
package disturbance
