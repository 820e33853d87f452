//go:build !linux

package main

import "syscall"

// attributes put a server into its own process group, so that a terminal's
// interrupt reaches only us.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
