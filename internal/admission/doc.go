// Package admission rewrites pods so that an unmodified scheduler counts them by
// CPU pool. It decides and does nothing else: the same pod, origin and settings
// give the same result, and the pod that is handed in stays as it is.
//
// A pod of a workload type (package workload) that may have the type loses its
// CPU requests. They become the type's extended resource, which the scheduler
// counts, and annotations, by which the node weighs the containers. A pod that may
// not have it is admitted as any other, with an annotation that says why, or is
// refused where its author has to change something first.
//
// All other pods keep their CPU requests and get the same amounts as extended
// resources of the pool that each container will run in.
//
// The rules are those of OpenShift's ManagementCPUsOverride and of its
// enhancement shared-and-guaranteed-cpu-pools. Where they differ, docs/adr/0017
// says how and why.
//
// Other webhooks and the API server's own LimitRanger act on pods too, before and
// after, and the API server then asks again. What this package has written is
// therefore read as what it is: [Settings.Mutate] of its own result is that result.
package admission
