package stator

import (
	"fmt"

	"github.com/stator-db/stator/internal/console"
)

// ConsoleMode is what the console of a server lets people do.
type ConsoleMode string

// Modes of the console.
const (
	ConsoleRead  ConsoleMode = "read"  // see data
	ConsoleWrite ConsoleMode = "write" // see and change data
)

// ConsoleModels computes what the console shows of access-pattern models.
type ConsoleModels = console.Workbench

// check returns the error of a mode that does not exist.
func (m ConsoleMode) check() error {
	switch m {
	case "", ConsoleRead, ConsoleWrite:
		return nil
	}
	return fmt.Errorf("Options.Console is %q, but must be %s, %s or empty", string(m), console.ReadOnly, console.ReadWrite)
}
