//go:build tikv

package main

import _ "github.com/stator-db/stator/tikv" // --engine tikv://…
