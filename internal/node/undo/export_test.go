package undo

// Names for tests.
var (
	Encode     = encode
	Decode     = decode
	ErrDamaged = errDamaged
)
