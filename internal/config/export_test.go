package config

// Keys are the keys that a file may have at its top.
func Keys() []string {
	var keys []string
	for _, f := range (&decoder{}).fields(&Config{}) {
		keys = append(keys, f.name)
	}
	return keys
}
