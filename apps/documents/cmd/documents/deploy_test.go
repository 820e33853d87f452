package main

import (
	"testing"

	"github.com/stator-db/stator/apps/internal/deploytest"
)

func TestDeploy(t *testing.T) { deploytest.Check(t, "../..", root) }
