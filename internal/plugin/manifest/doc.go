// Package manifest finds pods and pod templates in YAML documents, and writes their
// changes back. All other text stays, comments and order included. A changed document
// gets uniform indentation.
package manifest
