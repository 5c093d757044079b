// Package quantity parses amounts of Kubernetes, such as 500m or 2. The daemon does not link the package of
// Kubernetes (k8s.io/apimachinery). Pure.
package quantity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// most is the maximum of an amount.
const most = 1 << 40

// Milli parses a quantity into thousandths. It rounds up, as the scheduler does. A larger amount than 1<<40
// becomes 1<<40, so that sums do not overflow.
func Milli(s string) (int64, error) {
	at := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune("+-.0123456789", r) })
	number, suffix := s, ""
	if at >= 0 {
		number, suffix = s[:at], s[at:]
	}
	factor, known := factorOf(suffix)
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !known || value < 0 {
		return 0, fmt.Errorf("%q is not a quantity", s)
	}
	milli := value * factor * 1000
	if whole := math.Round(milli); math.Abs(milli-whole) <= 1e-9*max(whole, 1) {
		milli = whole // 0.1 has no exact binary form
	}
	return int64(min(math.Ceil(milli), most*1000)), nil
}

func factorOf(suffix string) (float64, bool) {
	for i, s := range []string{"n", "u", "m", "", "k", "M", "G", "T", "P", "E"} {
		if s == suffix {
			return math.Pow10(3 * (i - 3)), true
		}
	}
	for i, s := range []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"} {
		if s == suffix {
			return math.Pow(1024, float64(i+1)), true
		}
	}
	if suffix == "" || suffix[0] != 'e' && suffix[0] != 'E' {
		return 0, false
	}
	n, err := strconv.Atoi(suffix[1:])
	return math.Pow10(n), err == nil
}
