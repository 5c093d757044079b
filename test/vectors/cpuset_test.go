package vectors_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// unaryCase is size, is_empty and list. T is the type of the method's result.
type unaryCase[T any] struct {
	Set    cpuset.Set `json:"set"`
	Expect T          `json:"expect"`
}

func checkSize(raw json.RawMessage) error {
	c, err := decode[unaryCase[int]](raw)
	if err != nil {
		return err
	}
	return compare("Len", c.Set.Len(), c.Expect)
}

func checkIsEmpty(raw json.RawMessage) error {
	c, err := decode[unaryCase[bool]](raw)
	if err != nil {
		return err
	}
	return compare("IsEmpty", c.Set.IsEmpty(), c.Expect)
}

func checkList(raw json.RawMessage) error {
	c, err := decode[unaryCase[[]int]](raw)
	if err != nil {
		return err
	}
	return compare("All", slices.AppendSeq([]int{}, c.Set.All()), c.Expect)
}

func checkContains(raw json.RawMessage) error {
	c, err := decode[unaryCase[struct{ Yes, No []int }]](raw)
	if err != nil {
		return err
	}
	for _, cpu := range c.Expect.Yes {
		if !c.Set.Contains(cpu) {
			return fmt.Errorf("Contains(%d) = false", cpu)
		}
	}
	for _, cpu := range c.Expect.No {
		if c.Set.Contains(cpu) {
			return fmt.Errorf("Contains(%d) = true", cpu)
		}
	}
	return nil
}

// binaryCase is an operation on two or more sets.
type binaryCase[T any] struct {
	A      cpuset.Set   `json:"a"`
	B      cpuset.Set   `json:"b"`
	Others []cpuset.Set `json:"others"`
	Expect T            `json:"expect"`
}

func checkEqual(raw json.RawMessage) error {
	c, err := decode[binaryCase[bool]](raw)
	if err != nil {
		return err
	}
	return compare("Equal", c.A.Equal(c.B), c.Expect)
}

func checkSubset(raw json.RawMessage) error {
	c, err := decode[binaryCase[bool]](raw)
	if err != nil {
		return err
	}
	return compare("IsSubsetOf", c.A.IsSubsetOf(c.B), c.Expect)
}

func checkUnion(raw json.RawMessage) error {
	c, err := decode[binaryCase[string]](raw)
	if err != nil {
		return err
	}
	return compare("Union", c.A.Union(c.Others...).String(), c.Expect)
}

func checkIntersection(raw json.RawMessage) error {
	c, err := decode[binaryCase[string]](raw)
	if err != nil {
		return err
	}
	return compare("Intersection", c.A.Intersection(c.B).String(), c.Expect)
}

func checkDifference(raw json.RawMessage) error {
	c, err := decode[binaryCase[string]](raw)
	if err != nil {
		return err
	}
	return compare("Difference", c.A.Difference(c.B).String(), c.Expect)
}

func checkFormat(raw json.RawMessage) error {
	c, err := decode[struct {
		Members []int
		Expect  string
	}](raw)
	if err != nil {
		return err
	}
	for _, cpu := range c.Members {
		if cpu >= cpuset.MaxCPUs {
			return fmt.Errorf("CPU %d: %w", cpu, errDeviation)
		}
	}
	return compare("String", cpuset.Of(c.Members...).String(), c.Expect)
}

// outcome is a set in list format, or an error: true where any will do, else the
// kernel's errno.
type outcome struct {
	CPUSet *string `json:"cpuset"`
	Error  any     `json:"error"`
}

func (want outcome) check(what string, got cpuset.Set, err error) error {
	switch {
	case want.CPUSet != nil:
		if err != nil {
			return fmt.Errorf("%s: %w; want %q", what, err, *want.CPUSet)
		}
		return compare(what, got.String(), *want.CPUSet)
	case err == nil:
		return fmt.Errorf("%s = %q; want error %v", what, got, want.Error)
	case want.Error == true:
		return nil
	}
	for errno, sentinel := range map[string]error{
		"EINVAL":    cpuset.ErrSyntax,
		"ERANGE":    cpuset.ErrRange,
		"EOVERFLOW": cpuset.ErrOverflow,
	} {
		if want.Error == errno {
			if errors.Is(err, sentinel) {
				return nil
			}
			return fmt.Errorf("%s: %w; want %s", what, err, errno)
		}
	}
	return fmt.Errorf("%s: case expects error %v, which is none of ours", what, want.Error)
}

func checkParse(raw json.RawMessage) error {
	c, err := decode[struct {
		Input  string
		NBits  int
		Expect struct{ K8s, Kernel outcome }
	}](raw)
	if err != nil {
		return err
	}
	kernel, kernelErr := cpuset.ParseKernel(c.Input, c.NBits)
	if err := c.Expect.Kernel.check("ParseKernel", kernel, kernelErr); err != nil {
		return err
	}
	set, err := cpuset.Parse(c.Input)
	if want := c.Expect.K8s.CPUSet; want != nil && errors.Is(err, cpuset.ErrRange) && beyond(*want) {
		return fmt.Errorf("%w: %w", err, errDeviation)
	}
	return c.Expect.K8s.check("Parse", set, err)
}

// beyond reports whether the last CPU of a list is too large for us.
func beyond(list string) bool {
	last := strings.LastIndexAny(list, ",-") + 1
	cpu, err := strconv.ParseUint(list[last:], 10, 64)
	return err == nil && cpu >= cpuset.MaxCPUs
}

// kernelCase is parse_kernel and parse_kernel_mask.
type kernelCase struct {
	Input  string
	NBits  int
	Expect outcome
}

func checkParseKernel(raw json.RawMessage) error {
	c, err := decode[kernelCase](raw)
	if err != nil {
		return err
	}
	set, err := cpuset.ParseKernel(c.Input, c.NBits)
	return c.Expect.check("ParseKernel", set, err)
}

func checkParseMask(raw json.RawMessage) error {
	c, err := decode[kernelCase](raw)
	if err != nil {
		return err
	}
	set, err := cpuset.ParseMask(c.Input, c.NBits)
	return c.Expect.check("ParseMask", set, err)
}
