// Package review replies to API servers with the decisions of package admission. It reviews
// pods that are created, pods that are resized, and autoscalers.
//
// A reply refuses a pod that is not allowed. If the decision itself fails, for example because
// the cluster is unreachable, the reply is an HTTP error. Only then does the API server apply
// the webhook's failurePolicy.
//
// Package webhook has the server, its certificate and the state of the cluster. This package
// does not import it, so that a fuzz test builds in seconds.
package review
