package ops

import (
	"context"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/protocol/api"
)

// Forks are the forks of a server, as the database of a Service has them: a new one is a fork
// of this database, and the snapshots are its own. Their errors are those of requests.
type Forks interface {
	// Fork returns the name of the fork that the database is; empty if it is none.
	Fork() string

	// Create makes a fork of the database, or of a snapshot if one is named.
	Create(ctx context.Context, name, snapshot string) (Fork, error)
	List() []Fork // all of the server
	Delete(name string) error

	CreateSnapshot(ctx context.Context, name string) (Snapshot, error)
	Snapshots() []Snapshot
	DeleteSnapshot(name string) error
	Rewind(ctx context.Context, snapshot string) (Snapshot, error)
}

// Fork returns the name of the fork that the service answers for; empty if it is none.
func (s *Service) Fork() string {
	if s.forks == nil {
		return ""
	}
	return s.forks.Fork()
}

// Fork describes a fork.
type Fork struct {
	Name, Of          string
	Created, LastUsed time.Time
	Expires           time.Time // zero for never
	Bytes             int64     // of what was written to it
	Snapshots         int
}

// Snapshot describes a snapshot.
type Snapshot struct {
	Name    string
	Created time.Time
}

// maxForkName is the most that a label of a host name may have.
const maxForkName = 63

// ForkName returns a name of a fork or a snapshot in lower case; not ok if it cannot be a label
// of a host name.
func ForkName(name string) (lower string, ok bool) {
	if len(name) == 0 || len(name) > maxForkName || name[0] == '-' || name[len(name)-1] == '-' {
		return "", false
	}
	lower = strings.ToLower(name)
	for _, c := range []byte(lower) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return "", false
		}
	}
	return lower, true
}

// checkedForkName returns a name of a request, or its error.
func checkedForkName(what string, name *string) (string, error) {
	if name == nil {
		return "", nil
	}
	lower, ok := ForkName(*name)
	if !ok {
		return "", apierror.Validation("%s must have letters, digits and hyphens only, and begin and end with a letter or a digit, as it is a part of a host name", what)
	}
	return lower, nil
}

func (s *Service) forksOf() (Forks, error) {
	if s.forks == nil {
		return nil, apierror.Validation("This server makes no forks and no snapshots: start it with --forks, the most that there may be at once")
	}
	return s.forks, nil
}

// forksNamed returns the forks and the checked name of a request.
func (s *Service) forksNamed(what string, name *string) (Forks, string, error) {
	forks, err := s.forksOf()
	if err != nil {
		return nil, "", err
	}
	checked, err := checkedForkName(what, name)
	return forks, checked, err
}

func (s *Service) createFork(ctx context.Context, in *api.CreateFork) (*api.CreateForkReply, error) {
	forks, name, err := s.forksNamed("ForkName", in.ForkName)
	if err != nil {
		return nil, err
	}
	snapshot, err := checkedForkName("SnapshotName", in.SnapshotName)
	if err != nil {
		return nil, err
	}
	f, err := forks.Create(ctx, name, snapshot)
	if err != nil {
		return nil, err
	}
	return &api.CreateForkReply{Fork: describeFork(f)}, nil
}

func describeFork(f Fork) api.ForkDescription {
	return api.ForkDescription{
		ForkName: f.Name, ForkOf: f.Of, Created: timeText(f.Created), LastUsed: timeText(f.LastUsed), Expires: timeText(f.Expires),
		BytesWritten: f.Bytes, SnapshotCount: int64(f.Snapshots),
	}
}

func (s *Service) listForks(context.Context, *api.ListForks) (*api.ListForksReply, error) {
	forks, err := s.forksOf()
	if err != nil {
		return nil, err
	}
	reply := new(api.ListForksReply)
	for _, f := range forks.List() {
		reply.Forks = append(reply.Forks, describeFork(f))
	}
	return reply, nil
}

func (s *Service) deleteFork(_ context.Context, in *api.DeleteFork) (*api.DeleteForkReply, error) {
	forks, name, err := s.forksNamed("ForkName", in.ForkName)
	if err != nil {
		return nil, err
	}
	return new(api.DeleteForkReply), forks.Delete(name)
}

func describeSnapshot(s Snapshot) api.SnapshotDescription {
	return api.SnapshotDescription{SnapshotName: s.Name, Created: timeText(s.Created)}
}

func (s *Service) createSnapshot(ctx context.Context, in *api.CreateSnapshot) (*api.CreateSnapshotReply, error) {
	forks, name, err := s.forksNamed("SnapshotName", in.SnapshotName)
	if err != nil {
		return nil, err
	}
	made, err := forks.CreateSnapshot(ctx, name)
	if err != nil {
		return nil, err
	}
	return &api.CreateSnapshotReply{Snapshot: describeSnapshot(made)}, nil
}

func (s *Service) listSnapshots(context.Context, *api.ListSnapshots) (*api.ListSnapshotsReply, error) {
	forks, err := s.forksOf()
	if err != nil {
		return nil, err
	}
	reply := new(api.ListSnapshotsReply)
	for _, made := range forks.Snapshots() {
		reply.Snapshots = append(reply.Snapshots, describeSnapshot(made))
	}
	return reply, nil
}

func (s *Service) deleteSnapshot(_ context.Context, in *api.DeleteSnapshot) (*api.DeleteSnapshotReply, error) {
	forks, name, err := s.forksNamed("SnapshotName", in.SnapshotName)
	if err != nil {
		return nil, err
	}
	return new(api.DeleteSnapshotReply), forks.DeleteSnapshot(name)
}

func (s *Service) rewind(ctx context.Context, in *api.Rewind) (*api.RewindReply, error) {
	forks, name, err := s.forksNamed("SnapshotName", in.SnapshotName)
	if err != nil {
		return nil, err
	}
	of, err := forks.Rewind(ctx, name)
	if err != nil {
		return nil, err
	}
	return &api.RewindReply{Snapshot: describeSnapshot(of)}, nil
}
