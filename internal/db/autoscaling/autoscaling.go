// Package autoscaling changes the provisioned units of tables and global indexes
// by the settings of Application Auto Scaling, which it stores.
//
// It leaves the form of requests and replies to package ops, and counting
// consumed units to a Meter.
package autoscaling

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/lead"
)

// Meter returns the units that a table, or one of its global indexes, consumed
// in the minute that begins at a time. It is not ok if they are not known: the
// minute has not ended, or was before the server started. A resource that was
// idle consumed 0.
type Meter func(table, index string, write bool, minute time.Time) (units float64, ok bool)

// Options configure a Store.
type Options struct {
	Log *slog.Logger // defaults to one that discards everything

	// Consumed is what target tracking acts on. Without it, policies have no
	// effect; bounds and scheduled actions do.
	Consumed Meter
}

// Store holds the settings of auto scaling. The server that leads acts on them.
type Store struct {
	db         *db.DB
	log        *slog.Logger
	consumed   Meter
	background lead.Work
	wake       *clock.Wake
	applying   sync.Mutex
	unreadable sync.Map // keys of records that were logged
}

// topic is the topic of messages that say that settings were changed.
const topic = "auto scaling"

// Open opens the settings of a database and starts to act on them.
func Open(ctx context.Context, d *db.DB, o Options) *Store {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{db: d, log: o.Log, consumed: o.Consumed, wake: d.Clock().NewWake()}
	s.background.Start(ctx, d.Clock(), d.Leads, s.work)
	d.Subscribe(topic, func(context.Context, string) error {
		s.wake.Signal()
		return nil
	})
	return s
}

// Close stops acting on the settings.
func (s *Store) Close() { s.background.Close() }

// The dimensions of a resource.
const (
	TableRead  = "dynamodb:table:ReadCapacityUnits"
	TableWrite = "dynamodb:table:WriteCapacityUnits"
	IndexRead  = "dynamodb:index:ReadCapacityUnits"
	IndexWrite = "dynamodb:index:WriteCapacityUnits"
)

// ID identifies what is scaled: reads or writes of a table or a global index.
type ID struct {
	Resource  string `json:"resource"` // table/T or table/T/index/I
	Dimension string `json:"dimension"`
}

// Parts returns the table and the index of an id, and whether it is about writes.
// It is not ok if the resource and the dimension do not belong together.
func (id ID) Parts() (table, index string, write, ok bool) {
	parts := strings.Split(id.Resource, "/")
	switch {
	case len(parts) == 2 && (id.Dimension == TableRead || id.Dimension == TableWrite):
	case len(parts) == 4 && parts[2] == "index" && parts[3] != "" && (id.Dimension == IndexRead || id.Dimension == IndexWrite):
		index = parts[3]
	default:
		return "", "", false, false
	}
	return parts[1], index, strings.HasSuffix(id.Dimension, "WriteCapacityUnits"), parts[0] == "table" && parts[1] != ""
}

// Settings are all that is stored of one id (docs/formats/scaling.md).
type Settings struct {
	ID
	Target  *Target  `json:"target,omitempty"` // nil if it was deregistered
	Policy  *Policy  `json:"policy,omitempty"`
	Actions []Action `json:"actions,omitempty"` // in order of their names

	// Activities are what was done, the newest last. They outlive the target.
	Activities []Activity `json:"activities,omitempty"`
}

// Target is a scalable target: the bounds of units.
type Target struct {
	ARN     string            `json:"arn"`
	Created time.Time         `json:"created"`
	Role    string            `json:"role"`
	Region  string            `json:"region"`
	Min     int64             `json:"min"`
	Max     int64             `json:"max"`
	Tags    map[string]string `json:"tags,omitempty"`

	InSuspended        bool `json:"inSuspended,omitempty"`
	OutSuspended       bool `json:"outSuspended,omitempty"`
	ScheduledSuspended bool `json:"scheduledSuspended,omitempty"`

	// Unapplied says that the bounds were set, and the units were not compared
	// with them yet.
	Unapplied bool `json:"unapplied,omitempty"`

	// ClaimedUntil is until when the server that set the bounds applies them, before the
	// leader does: so the request has its effect when it returns.
	ClaimedUntil time.Time `json:"claimedUntil,omitzero"`

	// RetryAt is when the bounds are applied again that the table did not accept.
	RetryAt time.Time `json:"retryAt,omitzero"`
}

// Policy is a target tracking policy: the utilization that the units are to have.
type Policy struct {
	Name           string    `json:"name"`
	ARN            string    `json:"arn"`
	Created        time.Time `json:"created"`
	Metric         string    `json:"metric"`
	Label          *string   `json:"label,omitempty"` // of the metric; it has no effect
	Utilization    float64   `json:"utilization"`     // in percent
	OutCooldown    *int32    `json:"outCooldown,omitempty"`
	InCooldown     *int32    `json:"inCooldown,omitempty"`
	DisableScaleIn *bool     `json:"disableScaleIn,omitempty"`
	Alarms         []Alarm   `json:"alarms"`

	ScaledOut time.Time `json:"scaledOut,omitzero"` // when the policy last did
	ScaledIn  time.Time `json:"scaledIn,omitzero"`
	ScaledTo  int64     `json:"scaledTo,omitempty"` // the units at ScaledOut
}

// Alarm is the name of a condition under which a policy acts. Nothing else knows
// of it: there are no alarms that can be read.
type Alarm struct {
	Name string `json:"name"`
	ARN  string `json:"arn"`
}

// The alarms of a policy, in their order.
const (
	AlarmHigh = iota
	AlarmLow
	AlarmProvisionedHigh
	AlarmProvisionedLow
)

// AlarmKinds are the words for the alarms in their names.
var AlarmKinds = [...]string{"AlarmHigh", "AlarmLow", "ProvisionedCapacityHigh", "ProvisionedCapacityLow"}

// Action is a scheduled action, which sets bounds.
type Action struct {
	Name     string    `json:"name"`
	ARN      string    `json:"arn"`
	Created  time.Time `json:"created"`
	Schedule string    `json:"schedule"`
	Timezone string    `json:"timezone,omitempty"`
	Start    time.Time `json:"start,omitzero"`
	End      time.Time `json:"end,omitzero"`
	Min      *int64    `json:"min,omitempty"`
	Max      *int64    `json:"max,omitempty"`

	// Since is when the action was set or last done: it is due at the first
	// time of its schedule after that.
	Since time.Time `json:"since"`
}

// The statuses of activities.
const (
	Successful = "Successful"
	Failed     = "Failed"
)

// Activity is something that was done.
type Activity struct {
	ID          string    `json:"id"`
	Description string    `json:"description"`
	Cause       string    `json:"cause"`
	Started     time.Time `json:"started"`
	Ended       time.Time `json:"ended,omitzero"`
	Status      string    `json:"status"`
	Message     string    `json:"message"`
}

const (
	maxActivities = 100                 // of one id
	activityAge   = 42 * 24 * time.Hour // activities are kept for six weeks, as on AWS
)

// addActivity adds an activity and removes old ones. A failure that is repeated is
// not added again.
func (s *Settings) addActivity(a Activity) {
	if s.repeats(a) {
		return
	}
	s.Activities = append(s.Activities, a)
	s.Activities = s.Activities[max(0, len(s.Activities)-maxActivities):]
}

// repeats reports whether an activity is the same failure as the latest one.
func (s *Settings) repeats(a Activity) bool {
	n := len(s.Activities)
	return a.Status == Failed && n > 0 && s.Activities[n-1].Status == Failed && s.Activities[n-1].Message == a.Message
}

// dropOld removes activities that are no longer kept, and reports whether there
// were any.
func (s *Settings) dropOld(now time.Time) bool {
	before := len(s.Activities)
	s.Activities = slices.DeleteFunc(s.Activities, func(a Activity) bool { return now.Sub(a.Started) > activityAge })
	return len(s.Activities) < before
}

// formatScaling is the format number of stored settings.
const formatScaling = 1

func encodeSettings(s *Settings) []byte {
	if s.Target == nil && len(s.Activities) == 0 {
		return nil // there is nothing to store
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("settings of auto scaling cannot be encoded as JSON: %v", err))
	}
	return append([]byte{formatScaling}, text...)
}

func decodeSettings(stored []byte) (*Settings, error) {
	s := new(Settings)
	if len(stored) == 0 || stored[0] != formatScaling {
		return nil, errors.New("settings of auto scaling have an unknown format")
	}
	if err := json.Unmarshal(stored[1:], s); err != nil {
		return nil, fmt.Errorf("settings of auto scaling are corrupt: %w", err)
	}
	return s, nil
}

// List returns all settings, in order of resources and dimensions. It logs and leaves out
// those that cannot be read: the others are not to wait for them.
func (s *Store) List(ctx context.Context) ([]*Settings, error) {
	stored, err := s.db.ScalingRecords(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]*Settings, 0, len(stored))
	for key, value := range stored {
		settings, err := decodeSettings(value)
		if err != nil {
			if _, logged := s.unreadable.LoadOrStore(key, true); !logged {
				resource, dimension, _ := strings.Cut(key, "\x00")
				s.log.Error("settings of auto scaling cannot be read; nothing is scaled by them", "resource", resource, "dimension", dimension, "error", err)
			}
			continue
		}
		all = append(all, settings)
	}
	slices.SortFunc(all, func(a, b *Settings) int {
		return bytes.Compare([]byte(a.Resource+"\x00"+a.Dimension), []byte(b.Resource+"\x00"+b.Dimension))
	})
	return all, nil
}

// Get returns the settings of an id; they are empty if there are none.
func (s *Store) Get(ctx context.Context, id ID) (*Settings, error) {
	stored, err := s.db.Scaling(ctx, id.Resource, id.Dimension)
	if err != nil || stored == nil {
		return &Settings{ID: id}, err
	}
	return decodeSettings(stored)
}

// Change changes the settings of an id; they are empty if there are none. change
// may be called more than once. If it returns an error, nothing is changed.
func (s *Store) Change(ctx context.Context, id ID, change func(*Settings) error) error {
	if err := s.change(ctx, id, change); err != nil {
		return err
	}
	s.wake.Signal()
	return s.db.Broadcast(ctx, topic, id.Resource)
}

func (s *Store) change(ctx context.Context, id ID, change func(*Settings) error) error {
	return s.db.ChangeScaling(ctx, id.Resource, id.Dimension, func(before []byte) ([]byte, error) {
		settings := &Settings{ID: id}
		if before != nil {
			var err error
			if settings, err = decodeSettings(before); err != nil {
				return nil, err
			}
		}
		if err := change(settings); err != nil {
			return nil, err
		}
		return encodeSettings(settings), nil
	})
}
