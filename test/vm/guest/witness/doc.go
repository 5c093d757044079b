// Package witness is a guest test suite: containers whose process says where it was when it began, on any runtime. With NRI none ever runs
// outside its pool; without, the suite tells how many do and for how long, and that each ends inside.
package witness
