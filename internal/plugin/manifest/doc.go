// Package manifest finds the pods in YAML documents, also those that workload
// objects make, and writes back what is changed of them. All else stays as it was
// written, comments and order included; of a document that changes, indentation is
// made uniform.
package manifest
