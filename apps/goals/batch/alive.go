package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/google/uuid"
	"gocloud.dev/gcerrors"
)

// A run that writes to the table records each minute, in an object of the state, that it
// is alive. If it has not for aliveFor, its process is taken as ended.
const (
	aliveEvery = time.Minute
	aliveFor   = 10 * time.Minute
)

// instance identifies this process. Its number does not: in a container it is 1 after
// each restart.
var instance = uuid.NewString()

func (l *ledger) alive(run string) string { return path.Join(l.folder, "alive-"+run) }

// ended reports whether a run is known not to be in progress: it was one of this process,
// which runs one load at a time, or of a process of this machine that does not exist any
// more, or it has not recorded for long that it is alive.
func (l *ledger) ended(ctx context.Context, u *loaded, now time.Time) (bool, error) {
	if u.Instance == instance {
		return true, nil
	}
	if host, err := os.Hostname(); err == nil && u.Host == host && u.Process > 1 {
		if errors.Is(syscall.Kill(u.Process, 0), syscall.ESRCH) {
			return true, nil
		}
	}
	if u.Instance == "" {
		return false, nil // a run of an older version, which records nothing
	}
	last := u.Began
	b, err := l.bucket.ReadAll(ctx, l.alive(u.Run))
	if err == nil {
		last, err = time.Parse(time.RFC3339, string(b))
	}
	if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return false, fmt.Errorf("find whether run %s is alive: %w", u.Run, err)
	}
	return now.Sub(last) > aliveFor, nil
}

// recordAlive records that the run is alive.
func (r *run) recordAlive(ctx context.Context) error {
	if err := r.State.WriteAll(ctx, r.ledger.alive(r.id), []byte(r.Now().UTC().Format(time.RFC3339)), nil); err != nil {
		return fmt.Errorf("record that the run is alive: %w", err)
	}
	return nil
}

var errSuspended = errors.New("the machine was suspended")

// whileAlive does work while it records that the run is alive. It cancels the work if
// that fails for so long that another run may soon begin.
func whileAlive(ctx context.Context, now func() time.Time, record, work func(context.Context) error) error {
	if err := record(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		last := now().Round(0) // the time of day, which goes on while a machine is suspended
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(aliveEvery):
			}
			err := record(ctx)
			switch at := now().Round(0); {
			case at.Sub(last) > aliveFor/2:
				cancel(fmt.Errorf("the run could not record for %s that it is alive; start it again to continue: %w", at.Sub(last).Round(time.Second), cmp.Or(err, errSuspended)))
				return
			case err == nil:
				last = at
			}
		}
	}()
	err := work(ctx)
	lost := context.Cause(ctx)
	cancel(nil)
	<-ended
	if err != nil && lost != nil && !errors.Is(lost, context.Canceled) {
		return lost
	}
	return err
}
