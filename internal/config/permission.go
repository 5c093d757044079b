package config

// Permission is what lets the pods of a namespace ask for a workload type.
type Permission string

// With PermissionList it is the list of a partition alone. With PermissionAnnotation a
// namespace's own annotation does, too, as the API server tells it: where there is no
// webhook.
const (
	PermissionList       Permission = "list"
	PermissionAnnotation Permission = "annotation"
)
