// Package tikv lets a program that embeds stator store its data in a TiKV cluster. Import it
// for its effect:
//
//	import _ "github.com/stator-db/stator/tikv"
//
// Then Options.Engine takes the URL of a cluster:
//
//	tikv://pd1:2379,pd2:2379?prefix=prod
//
// It is a package of its own so that programs without it do not depend on TiKV's client.
package tikv

import _ "github.com/stator-db/stator/internal/store/tikv" // it registers tikv:// URLs
