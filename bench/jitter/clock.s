// Empty: a package without a file of assembly may not declare a function without a body.
