// Package confined opens, writes and removes files in one directory and never leaves it.
// Other processes may change the directory at any moment: no call follows a symbolic link or
// crosses a mount, and no call opens a device or a FIFO. New content goes to a new file with
// a random name, and a rename in the same directory gives it the name of the file.
//
// The names of all methods are single file names. The directory of Open is trusted: the
// configuration names it, and only its owner can write to the directories above it.
package confined
