package review

import "fmt"

// Limits of a review's JSON. An element of a list takes two bytes, and more than 800 in memory
// as a container. A real pod has a few hundred values. An empty list or object counts as one with
// a value.
const (
	maxElements = 20_000  // of all lists
	maxValues   = 200_000 // of all lists and objects
)

// A review above one of these sizes is large: its garbage is collected before the next large one.
// No real pod is large.
const (
	largeBytes    = 512 << 10
	largeElements = 1_000
	largeValues   = 10_000
)

// checkSize reports whether a review is large. It returns an error if a review has too many values to
// decode it in bounded memory. Of text that is no JSON, the decoder reports the error.
func checkSize(data []byte) (isLarge bool, err error) {
	var inList []bool // for each open list or object
	elements, values := 0, 0
	count := func() { // the first value of a list or object, or one after a comma
		values++
		if len(inList) > 0 && inList[len(inList)-1] {
			elements++
		}
	}
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			inList = append(inList, data[i] == '[')
			count()
		case ']', '}':
			inList = inList[:max(len(inList)-1, 0)]
		case ',':
			count()
		}
		if elements > maxElements || values > maxValues {
			return true, fmt.Errorf("more than %d list elements or %d values", maxElements, maxValues)
		}
	}
	return len(data) > largeBytes || elements > largeElements || values > largeValues, nil
}
