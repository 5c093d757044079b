package retry

// Deviation is a property that was as planned and is not any more.
type Deviation struct {
	Property string // the file
	Was, Is  string
}
