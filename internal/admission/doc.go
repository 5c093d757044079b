// Package admission rewrites pods so that an unmodified scheduler counts them by
// CPU pool. It is pure: the same pod, origin and settings give the same result,
// and the given pod is not changed.
//
// A pod of a workload type (package workload) that may have the type loses its
// CPU requests. They become the type's extended resource, which the scheduler
// counts, and annotations, by which the node weighs the containers. A pod that may
// not have the type is admitted as a pod of no type, with an annotation that states
// the reason. It is refused if its author must change it first.
//
// All other pods keep their CPU requests and get the same amounts as extended
// resources of the pool that each container will run in.
//
// The rules follow OpenShift's ManagementCPUsOverride and its enhancement
// shared-and-guaranteed-cpu-pools. docs/adr/0017 states the differences and
// their reasons.
//
// Other webhooks and the API server's LimitRanger change pods too, and the API
// server may call a webhook again after them. [Settings.Mutate] is therefore
// idempotent: it returns its own result unchanged.
package admission
