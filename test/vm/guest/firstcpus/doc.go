// Package firstcpus is a guest test suite. It starts containers whose process reports the CPUs of its start, on any runtime. With NRI none
// of them ever runs outside its pool. Without NRI, the suite counts the containers outside and their time, and checks that each ends in
// its pool.
package firstcpus
