package inventory

// annotationsOf are those of the newest pod of a UID.
func (m *Model) AnnotationsOf(uid string) map[string]string {
	for _, p := range m.Pods {
		if p.Uid == uid {
			return p.Pod.Annotations
		}
	}
	return nil
}

// annotationsOfPod are those of a sandbox.
func (m *Model) AnnotationsOfPod(id string) map[string]string {
	if p := m.Pods[id]; p != nil {
		return p.Pod.Annotations
	}
	return nil
}
