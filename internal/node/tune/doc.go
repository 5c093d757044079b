// Package tune holds the host's settings outside of cgroups: which CPUs interrupts,
// workqueues and threads of the kernel use.
//
// A knob is one such value. [Plan] is pure: from what is wished, what the host shows
// and what is on record it makes the changes. Around it is an actor, the [Tuner], with
// a goroutine of its own, because files of /proc and /sys can take their time and the
// daemon's owner must not. Each of its passes reads the world anew: interrupts come
// and go without a word, irqbalance forgets with its restart what it was told, and
// others write, too. What a knob was before the first change is on disk before that
// change ([Undo]), until the knob is given back.
//
// More kinds of knobs are made by giving the Tuner another [Source]: knobs of a kind
// that is no mask have a value that is wished as it is ([Wish.Values]).
package tune
