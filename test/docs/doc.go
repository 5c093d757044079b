// Package docs tests the links between the Markdown files of the repository, the index of the
// pages below docs, their types, the commands of guides, and the table of recording rules.
package docs
