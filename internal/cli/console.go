package cli

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/console"
)

// checkConsole returns the error of a --console that does not exist.
func checkConsole(mode string) error {
	switch mode {
	case "", "off", string(stator.ConsoleRead), string(stator.ConsoleWrite):
		return nil
	}
	return usageError{fmt.Errorf("--console is %q, but must be read, write or off", mode)}
}

// consoleMode returns the mode of --console; empty for none.
func consoleMode(flag string) stator.ConsoleMode {
	if flag == "off" {
		return ""
	}
	return stator.ConsoleMode(flag)
}

// checkConsoleModel returns the error of a --model that the console cannot show.
func checkConsoleModel(console, model string) error {
	switch {
	case model == "":
		return nil
	case consoleMode(console) == "":
		return usageError{errors.New("--model is for the console: add --console")}
	}
	_, err := readModel(model)
	return err
}

// announceConsole prints the address of the console.
func announceConsole(w io.Writer, mode stator.ConsoleMode, scheme string, addr net.Addr) {
	what := map[stator.ConsoleMode]string{stator.ConsoleRead: "reads only; --console=write lets people change data", stator.ConsoleWrite: "can change data"}[mode]
	if what != "" {
		fmt.Fprintf(w, "the console is at %s://%s%s and %s\n", scheme, addr, console.Base, what)
	}
}
