// Package docs tests the links between the Markdown files of the repository, and the index
// of the pages below docs.
package docs
