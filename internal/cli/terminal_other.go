//go:build !linux && !darwin

package cli

import "os"

// terminalColumns returns the width of a terminal, which is not known here.
func terminalColumns(*os.File) int { return 0 }
