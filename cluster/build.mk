# The programs of the test cluster. They are large and rarely change, so they are
# cached next to Go's own cache, by a hash of their sources: a clean checkout finds them.

CLUSTER_SOURCES := $(wildcard cluster/pd/go.* cluster/store/go.* cluster/store/*.go)
CLUSTER_KEY     := $(shell cat $(CLUSTER_SOURCES) | cksum | cut -d ' ' -f 1)
CLUSTER_CACHE   := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/stator/cluster-$(CLUSTER_KEY)

.PHONY: cluster-binaries cluster-cached
cluster-binaries: bin/cluster/pd-server bin/cluster/unistore-server # build the test cluster's PD and store

cluster-cached: # succeeds if they need not be built
	@test -x $(CLUSTER_CACHE)/pd-server && test -x $(CLUSTER_CACHE)/unistore-server

bin/cluster/%: $(CLUSTER_CACHE)/%
	@mkdir -p bin/cluster
	cp $< $@

# Their modules are read only, and checked against their go.sum.
$(CLUSTER_CACHE)/pd-server:
	cd cluster/pd && CGO_ENABLED=0 $(GO) build -mod=readonly -trimpath -tags without_dashboard -o $@ github.com/tikv/pd/cmd/pd-server

# One of its libraries reaches into Go's runtime by name.
$(CLUSTER_CACHE)/unistore-server:
	cd cluster/store && CGO_ENABLED=0 $(GO) build -mod=readonly -trimpath -ldflags=-checklinkname=0 -o $@ .
