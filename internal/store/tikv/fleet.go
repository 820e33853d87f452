package tikv

import (
	"context"
	"slices"
)

// Attend adds this process to a group. Its record has the group before the others are told
// of it, and they read the records again before they have handled that.
func (e *Engine) Attend(ctx context.Context, group string, prompt bool) error {
	m := e.membership
	m.mu.Lock()
	if !slices.Contains(m.groups, group) {
		m.groups = append(slices.Clip(m.groups), group)
	}
	m.prompt = m.prompt || prompt
	m.mu.Unlock()
	wake(m.wakeDelivery) // so that it begins to look for messages
	if err := e.gate.Enter(); err != nil {
		return err
	}
	err := m.heartbeat(ctx)
	e.gate.Leave()
	if err != nil {
		return err
	}
	return e.broadcast(ctx, messageGroups, nil, func(memberRecord) bool { return true })
}

// Attended reports whether another process attends a group.
func (e *Engine) Attended(group string) bool {
	e.membership.mu.Lock()
	defer e.membership.mu.Unlock()
	return e.membership.attended[group]
}

// readGroups reads which groups the other processes attend.
func (m *membership) readGroups(ctx context.Context) error {
	ts, err := m.e.now(ctx)
	if err != nil {
		return err
	}
	members, err := m.e.members(ctx, ts)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observeGroups(ts, members)
	return nil
}

// observeGroups keeps which groups the other processes attend, unless the records are older
// than those that are known: a heartbeat may have begun before a process attended a group,
// and end after this process was told of it. The caller holds m.mu.
func (m *membership) observeGroups(ts uint64, members map[uint64]memberRecord) {
	if ts <= m.attendedAt {
		return
	}
	m.attendedAt, m.attended = ts, make(map[string]bool)
	for id, r := range members {
		if id == m.id {
			continue
		}
		for _, group := range r.Groups {
			m.attended[group] = true
		}
	}
}

// Announce appends a message, and waits until the processes of a group have handled it.
//
// A process whose record does not have the group yet when the message is stored has not read
// anything that it could show, and one whose record was removed has lost its lease.
func (e *Engine) Announce(ctx context.Context, group string, message []byte) error {
	return e.broadcast(ctx, messageForHandler, message, func(r memberRecord) bool { return slices.Contains(r.Groups, group) })
}

// Post appends a message.
func (e *Engine) Post(ctx context.Context, message []byte) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	_, err := e.send(ctx, messageForHandler, message)
	return err
}

// Leased reports whether the lease of this process is valid.
func (e *Engine) Leased() bool { return e.membership.leaseValid(context.Background()) }

// OnLoss sets the function that is called when a dead process was removed.
func (e *Engine) OnLoss(lost func()) {
	e.membership.mu.Lock()
	defer e.membership.mu.Unlock()
	e.membership.lost = lost
}
