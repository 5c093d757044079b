package preflight

// Parsers for external tests.
var (
	ParseCPUManagerState = parseCPUManagerState
	ParseLocks           = parseLocks
)

// ParseKubeletConfig returns the values by key; nil means absent.
func ParseKubeletConfig(b []byte) (map[string]*string, error) {
	c, err := parseKubeletConfig(b)
	return map[string]*string{
		"cpuManagerPolicy":      c.cpuManagerPolicy,
		"cgroupDriver":          c.cgroupDriver,
		"reservedSystemCPUs":    c.reservedSystemCPUs,
		"topologyManagerPolicy": c.topologyManagerPolicy,
		"memoryManagerPolicy":   c.memoryManagerPolicy,
	}, err
}

// CheckNames returns the names of all checks.
func CheckNames() []string {
	var names []string
	for _, c := range checks() {
		names = append(names, c.name)
	}
	return names
}

// Functions of Local for external tests.
var (
	Writable   = writable
	LockHolder = lockHolder
)
