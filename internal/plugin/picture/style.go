package picture

import _ "embed" // for style.css

//go:embed style.css
var style string

// Style is the style sheet of pictures, for pages that hold bare ones.
func Style() string { return style }
