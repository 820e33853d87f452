//go:build linux

package rig

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"
)

// inside marks a process that Namespace has started.
const inside = "STATOR_CLUSTER_NAMESPACE"

// Namespace gives the program a network of its own, which has only 127.0.0.1.
// It belongs at the beginning of main or TestMain: it runs the program again
// within a new network namespace and exits with its status; within the
// namespace it just returns. The namespace ends with its last process.
//
// Without root it creates a user namespace too, in which the user is root.
func Namespace() {
	if os.Getenv(inside) != "" {
		if err := loopbackUp(); err != nil {
			fmt.Fprintln(os.Stderr, "cluster: cannot bring up 127.0.0.1:", err)
			os.Exit(1)
		}
		return
	}
	code, err := runInside()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster: cannot run in a network namespace:", err)
		fmt.Fprintln(os.Stderr, "         run it as root, or allow user namespaces on this machine")
	}
	os.Exit(code)
}

func runInside() (code int, err error) {
	program, err := os.Executable()
	if err != nil {
		return 1, err
	}
	cmd := &exec.Cmd{
		Path:        program,
		Args:        os.Args,
		Env:         append(os.Environ(), inside+"=1"),
		Stdin:       os.Stdin,
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
		SysProcAttr: isolation(),
	}
	// The parent-death signal is sent when this thread ends.
	runtime.LockOSThread()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // it fails only if the process has ended
		}
	}()
	var failed *exec.ExitError
	if err := cmd.Wait(); errors.As(err, &failed) {
		if status, ok := failed.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal()), nil // like a shell
		}
		return failed.ExitCode(), nil
	} else if err != nil {
		return 1, err
	}
	return 0, nil
}

func isolation() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// isolated returns nil if no other process uses the network namespace.
func isolated() error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range all {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 {
			return fmt.Errorf("network interface %s is up, so this network is shared: call rig.Namespace first", i.Name)
		}
	}
	return nil
}

// loopbackUp does what `ip link set lo up` does.
func loopbackUp() error {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Close(socket) }()
	// struct ifreq of <net/if.h>
	request := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP}
	copy(request.name[:], "lo")
	_, _, fault := syscall.Syscall(syscall.SYS_IOCTL, uintptr(socket), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request)))
	if fault != 0 {
		return fault
	}
	return nil
}
