//go:build !unix

package process

func maxFiles() uint64 { return 0 }
