// Command stator is a DynamoDB-compatible database in one binary.
package main

import (
	"os"

	"github.com/stator-db/stator/internal/cli"
)

func main() { os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr)) }
