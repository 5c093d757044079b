package preflight

// Parsers for external tests.
var (
	ParseCPUManagerState = parseCPUManagerState
	ParseLocks           = parseLocks
)

// ParseKubeletConfig returns the values of settings by key.
func ParseKubeletConfig(b []byte) (map[string]string, error) {
	k := kubeletFacts{gates: make(map[string]bool)}
	err := k.apply(b, "kubelet.yaml")
	values := make(map[string]string)
	for _, s := range k.settings() {
		if s.to.source != "" {
			values[s.key] = s.to.value
		}
	}
	return values, err
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
