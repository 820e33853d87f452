//go:build !linux

package main

import "syscall"

// attributes put a server into a group of its own, so that a terminal's
// interrupt reaches only us.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
