package inventory

// UidOf is the UID of the newest pod of a name, "" if there is none.
func (m *Inventory) UidOf(namespace, name string) string {
	var found *Pod
	for _, e := range m.Pods {
		if e.Pod.Namespace == namespace && e.Pod.Name == name && (found == nil || newer(e.Pod, found.Pod)) {
			found = e
		}
	}
	if found == nil {
		return ""
	}
	return found.Uid
}
