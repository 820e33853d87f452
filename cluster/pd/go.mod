// This module holds no code: it pins what `make cluster-binaries` builds the
// test cluster's PD from, so that none of it is ours. `go mod tidy` would empty
// it; `go mod download` and `go build -mod=mod` of the program keep go.sum.
module github.com/stator-db/stator/cluster/pd

// With a newer language version Go's router refuses PD's patterns at its start.
go 1.19

require github.com/tikv/pd v1.1.0-beta.0.20230203015356-248b3f0be132

// The etcd within PD uses what later versions removed.
replace google.golang.org/grpc => google.golang.org/grpc v1.26.0
