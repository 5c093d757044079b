// Package docs tests the links between the Markdown files of the repository. It also tests the
// index of the pages below docs, their types, the commands of guides, and the outputs that pages
// show. For the table of recording rules, it compares the page with the rules.
package docs
