package cli

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// errNegative is the error of a duration below zero.
var errNegative = errors.New("must not be negative")

// durationVar defines a flag for a duration, which must not be negative.
func durationVar(cmd *cobra.Command, into *time.Duration, name string, value time.Duration, usage string) {
	*into = value
	cmd.Flags().Var((*durationValue)(into), name, usage)
}

// durationValue is the value of a duration flag.
type durationValue time.Duration

// Set parses a duration, such as 90s, 1h30m or 14d.
func (d *durationValue) Set(text string) error {
	value, err := parseDuration(text)
	if err == nil && value < 0 {
		err = errNegative
	}
	if err == nil {
		*d = durationValue(value)
	}
	return err
}

// parseDuration parses a duration of Go, or a number of days.
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	return time.ParseDuration(text)
}

// Type is the name of the type in help texts.
func (d *durationValue) Type() string { return "duration" }

// String is the duration as text.
func (d *durationValue) String() string {
	const day = 24 * time.Hour
	if value := time.Duration(*d); value > day && value%day == 0 {
		return strconv.Itoa(int(value/day)) + "d"
	}
	return time.Duration(*d).String()
}
