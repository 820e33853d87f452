package cli

import (
	"errors"
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

// Set parses a duration.
func (d *durationValue) Set(text string) error {
	value, err := time.ParseDuration(text)
	if err == nil && value < 0 {
		err = errNegative
	}
	if err == nil {
		*d = durationValue(value)
	}
	return err
}

// Type is the name of the type in help texts.
func (d *durationValue) Type() string { return "duration" }

// String is the duration as text.
func (d *durationValue) String() string { return time.Duration(*d).String() }
