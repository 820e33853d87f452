package main

import "syscall"

// attributes put a server into its own process group, so that a terminal's
// interrupt reaches only us, and end it with us.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
