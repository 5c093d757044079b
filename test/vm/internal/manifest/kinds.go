package manifest

// EveryKind returns a pod of each kind, all of which fit on a node with eight CPUs of which four are guaranteed, at the same time.
// Containers with whole CPUs take three of those.
func EveryKind() []Pod {
	return []Pod{
		{
			Name: "agent", Namespace: "kube-system", Annotations: Management(map[string]string{"app": "512"}),
			Containers: []Container{{Name: "app", CPU: "100m", Memory: "20Mi"}},
		},
		{
			// Requests the pool of agent, from a namespace without permission.
			Name: "impostor", Namespace: "default", Annotations: Management(nil),
			Containers: []Container{{Name: "app", CPU: "100m", Memory: "20Mi"}},
		},
		{Name: "besteffort", Namespace: "default", Containers: []Container{{Name: "app"}}},
		{Name: "burstable", Namespace: "default", Containers: []Container{{Name: "app", CPU: "500m", Memory: "20Mi"}}},
		{Name: "fractional", Namespace: "default", Containers: []Container{{Name: "app", CPU: "1500m", Memory: "20Mi", Limited: true}}},
		{Name: "exclusive", Namespace: "default", Containers: []Container{{Name: "app", CPU: "2", Memory: "20Mi", Limited: true}}},
		{
			Name: "mixed", Namespace: "default",
			Containers: []Container{
				{Name: "fast", CPU: "1", Memory: "20Mi", Limited: true},
				{Name: "side", CPU: "200m", Memory: "20Mi", Limited: true},
			},
		},
	}
}
