// Package review answers API servers what package admission decides: requests for the
// review of pods that are created, and of pods that are resized.
//
// A pod that must not be is refused in a review. What is nobody's fault, a cluster
// that cannot be asked for instance, is an HTTP error instead: only then does the API
// server do what the webhook's failurePolicy says.
//
// The server, its certificate and what it knows of the cluster are package webhook's.
// Nothing of them is imported, so that fuzzing this takes seconds to build.
package review
