package tablemodel

import (
	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/console/workbench"
)

// Console computes what the console of a server shows of access-pattern models, for
// stator.Options.ConsoleModels. file is the model that it shows first; empty for none.
func Console(file string) stator.ConsoleModels { return workbench.New(file) }
