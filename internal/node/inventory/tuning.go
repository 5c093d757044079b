package inventory

// AnnotationsOf are those of the newest pod of a UID.
func (m *Inventory) AnnotationsOf(uid string) map[string]string {
	for _, p := range m.Pods {
		if p.Uid == uid {
			return p.Pod.Annotations
		}
	}
	return nil
}

// AnnotationsOfPod are those of a sandbox.
func (m *Inventory) AnnotationsOfPod(id string) map[string]string {
	if p := m.Pods[id]; p != nil {
		return p.Pod.Annotations
	}
	return nil
}
