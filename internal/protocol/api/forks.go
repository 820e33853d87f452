package api

// CreateFork makes a fork of the database that the request is sent to.
type CreateFork struct {
	ForkName     *string `must:"minlen=1,maxlen=63"` // it defaults to a random name
	SnapshotName *string `must:"minlen=1,maxlen=63"` // of the database; without one the fork is of its present state
}

// CreateForkReply answers a CreateFork.
type CreateForkReply struct {
	Fork ForkDescription
}

// ForkDescription is a fork of a database.
type ForkDescription struct {
	ForkName      string
	ForkOf        string // the name of a fork; empty for the database of the server
	Created       string
	LastUsed      string
	Expires       string // at the latest; empty for never
	BytesWritten  int64  `reply:"always"`
	SnapshotCount int64  `reply:"always"`
}

// ListForks lists the forks of a server.
type ListForks struct{}

// ListForksReply answers a ListForks.
type ListForksReply struct {
	Forks []ForkDescription `reply:"always"`
}

// DeleteFork drops a fork with its snapshots.
type DeleteFork struct {
	ForkName *string `must:"present,minlen=1,maxlen=63"`
}

// DeleteForkReply answers a DeleteFork.
type DeleteForkReply struct{}

// CreateSnapshot keeps the state of the database that the request is sent to.
type CreateSnapshot struct {
	SnapshotName *string `must:"present,minlen=1,maxlen=63"`
}

// CreateSnapshotReply answers a CreateSnapshot.
type CreateSnapshotReply struct {
	Snapshot SnapshotDescription
}

// SnapshotDescription is a state of a database that was kept.
type SnapshotDescription struct {
	SnapshotName string
	Created      string
}

// ListSnapshots lists the snapshots of a database.
type ListSnapshots struct{}

// ListSnapshotsReply answers a ListSnapshots.
type ListSnapshotsReply struct {
	Snapshots []SnapshotDescription `reply:"always"`
}

// DeleteSnapshot drops a snapshot.
type DeleteSnapshot struct {
	SnapshotName *string `must:"present,minlen=1,maxlen=63"`
}

// DeleteSnapshotReply answers a DeleteSnapshot.
type DeleteSnapshotReply struct{}

// Rewind gives the database that the request is sent to the state of a snapshot, which is kept.
type Rewind struct {
	SnapshotName *string `must:"present,minlen=1,maxlen=63"`
}

// RewindReply answers a Rewind.
type RewindReply struct {
	Snapshot SnapshotDescription
}
