package view

// RequestOf is requestOf.
var RequestOf = requestOf
