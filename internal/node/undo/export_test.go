package undo

// Names for tests.
var (
	Encode       = encode
	Decode       = decode
	EncodeRecent = encodeRecent
	DecodeRecent = decodeRecent
	ErrDamaged   = errDamaged
)

// Recent is recent for tests.
type Recent = recent

// Extend is extend for tests.
func (r recent) Extend(d Document) (Document, bool) { return r.extend(d) }
