package telemetry

func (e emitter) node(n *NodeView) {
	if n == nil {
		return
	}
	const milli = 1000
	for _, r := range n.Resources {
		e.emit(nodeResource, float64(r.Milli)/milli, r.Name)
		e.emit(nodeUnaccounted, float64(r.Unaccounted)/milli, r.Name)
	}
	e.emit(nodePressure, boolValue(n.Pressure))
	for _, result := range []Result{OK, Conflict, Failed} {
		e.emit(nodePatches, float64(n.Patches[result]), string(result))
	}
	for _, result := range []Result{OK, Failed} {
		e.emit(nodeEvents, float64(n.Events[result]), string(result))
	}
}
