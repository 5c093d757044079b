package testnode

// Moment is a point in the creation and the start of a container.
type Moment string

// The moments of a container, in their order. With containerd the cgroup exists from Made on, with
// CRI-O from the end of CreateContainer on.
const (
	// Answered is after the replies of NRI plugins to the creation. The container is not in the
	// runtime's lists yet.
	Answered Moment = "answered"
	// Made is before the NRI request about the start. The cgroup contains the first process.
	Made Moment = "made"
	// Allowed is after the replies of NRI plugins to the start, before the entrypoint starts.
	Allowed Moment = "allowed"
)

// OnMoment makes CreateContainer and StartContainer call f at each Moment. They wait for its
// return. With nil, they call nothing.
func (r *Runtime) OnMoment(f func(Moment)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onMoment = f
}

// reach calls the function of OnMoment. The caller does not hold r.mu.
func (r *Runtime) reach(m Moment) {
	r.mu.Lock()
	f := r.onMoment
	r.mu.Unlock()
	if f != nil {
		f(m)
	}
}
