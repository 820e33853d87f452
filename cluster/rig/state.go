//go:build linux

package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"
)

// askLimit is the timeout of one request to a PD: a PD that has lost its
// leader may hold a request for long.
const askLimit = 2 * time.Second

// PDLeader returns the leading PD. Between the death of a leader and the
// election of the next there is no leader, which is an error.
func (c *Cluster) PDLeader(ctx context.Context) (int, error) {
	var leader struct {
		Name string `json:"name"`
	}
	if err := c.ask(ctx, http.MethodGet, "leader", &leader); err != nil {
		return 0, err
	}
	for i, s := range c.pd {
		if s.name != leader.Name {
			continue
		}
		// The others name a dead leader until its lease ends.
		if err := s.running(); err != nil {
			return 0, fmt.Errorf("PD has no new leader: %w", err)
		}
		return i, nil
	}
	return 0, fmt.Errorf("PD has no leader, or one unknown to us: %q", leader.Name)
}

// led is PDLeader as a check for Await, which also notices servers that have
// ended.
func (c *Cluster) led(ctx context.Context) error {
	for _, s := range c.pd {
		if err := s.running(); err != nil {
			return err
		}
	}
	_, err := c.PDLeader(ctx)
	return err
}

// StoreLeading returns the store that leads most regions.
func (c *Cluster) StoreLeading(ctx context.Context) (int, error) {
	stores, err := c.storesByID(ctx)
	if err != nil {
		return 0, err
	}
	regions, err := c.regions(ctx)
	if err != nil {
		return 0, err
	}
	var leads [Size]int
	led := false
	for _, r := range regions {
		// PD names a dead leader until the next one reports.
		if i, ok := stores[r.Leader.StoreID]; ok && c.stores[i].running() == nil {
			leads[i]++
			led = true
		}
	}
	if !led {
		return 0, fmt.Errorf("no store leads any of %d regions", len(regions))
	}
	return slices.Index(leads[:], slices.Max(leads[:])), nil
}

// Healthy returns nil when every server runs and answers, and every region
// has a leader and a voter on each store. It reports PD's view, which can be
// one heartbeat (1 s) old: a store that was killed and started again within
// it may still be named as a leader.
func (c *Cluster) Healthy(ctx context.Context) error {
	for _, s := range slices.Concat(c.pd[:], c.stores[:]) {
		if err := s.running(); err != nil {
			return err
		}
	}
	if _, err := c.PDLeader(ctx); err != nil {
		return err
	}
	if err := c.membersHealthy(ctx); err != nil {
		return err
	}
	for _, s := range c.stores {
		if err := dial(ctx, s.address); err != nil {
			return fmt.Errorf("%s does not answer: %w", s.name, err)
		}
	}
	stores, err := c.storesByID(ctx)
	if err != nil {
		return err
	}
	if len(stores) != Size {
		return fmt.Errorf("PD knows %d stores, not %d", len(stores), Size)
	}
	regions, err := c.regions(ctx)
	if err != nil {
		return err
	}
	if len(regions) == 0 {
		return errors.New("PD knows no regions")
	}
	for _, r := range regions {
		if err := r.whole(stores); err != nil {
			return fmt.Errorf("region %d of %d regions: %w", r.ID, len(regions), err)
		}
	}
	return nil
}

// membersHealthy checks that each PD has joined the others, so that the loss
// of any one leaves two.
func (c *Cluster) membersHealthy(ctx context.Context) error {
	var members []struct {
		Name   string `json:"name"`
		Health bool   `json:"health"`
	}
	if err := c.ask(ctx, http.MethodGet, "health", &members); err != nil {
		return err
	}
	if len(members) != Size {
		return fmt.Errorf("PD has %d members, not %d", len(members), Size)
	}
	for _, m := range members {
		if !m.Health {
			return fmt.Errorf("%s is not healthy", m.Name)
		}
	}
	return nil
}

// region is a range of keys, as PD describes it.
type region struct {
	ID           uint64 `json:"id"`
	Peers        []peer `json:"peers"`
	Leader       peer   `json:"leader"`
	DownPeers    []any  `json:"down_peers"`
	PendingPeers []peer `json:"pending_peers"`
}

type peer struct {
	StoreID uint64 `json:"store_id"`
	Role    string `json:"role_name"`
}

// whole returns nil if the region has one voter on each of the stores, one of
// which leads.
func (r region) whole(stores map[uint64]int) error {
	voters := make(map[uint64]bool)
	for _, p := range r.Peers {
		if _, known := stores[p.StoreID]; known && p.Role == "Voter" {
			voters[p.StoreID] = true
		}
	}
	switch {
	case len(voters) != Size || len(r.Peers) != Size:
		return fmt.Errorf("%d of its %d peers vote, want %d", len(voters), len(r.Peers), Size)
	case len(r.PendingPeers) > 0 || len(r.DownPeers) > 0:
		return fmt.Errorf("%d peers lag and %d are down", len(r.PendingPeers), len(r.DownPeers))
	case !voters[r.Leader.StoreID]:
		return errors.New("it has no leader")
	}
	return nil
}

func (c *Cluster) regions(ctx context.Context) ([]region, error) {
	var all struct {
		Regions []region `json:"regions"`
	}
	err := c.ask(ctx, http.MethodGet, "regions", &all)
	return all.Regions, err
}

// storesByID maps PD's store ids to our numbers. Whether a store is up we
// check ourselves; a new leader of PD learns it only from the store's next
// heartbeat, up to 10 s later.
func (c *Cluster) storesByID(ctx context.Context) (map[uint64]int, error) {
	var all struct {
		Stores []struct {
			Store struct {
				ID      uint64 `json:"id"`
				Address string `json:"address"`
			} `json:"store"`
		} `json:"stores"`
	}
	if err := c.ask(ctx, http.MethodGet, "stores", &all); err != nil {
		return nil, err
	}
	known := make(map[uint64]int)
	for _, s := range all.Stores {
		if i := slices.Index(c.Stores(), s.Store.Address); i >= 0 {
			known[s.Store.ID] = i
		}
	}
	return known, nil
}

// dropKeyspaceRule removes PD's rule that splits the key space. The stores do
// not follow it, and while it exists PD adds no replicas to the regions that
// it names.
func (c *Cluster) dropKeyspaceRule(ctx context.Context) error {
	for _, s := range c.stores {
		if err := s.running(); err != nil {
			return err
		}
	}
	return c.ask(ctx, http.MethodDelete, "config/region-label/rule/keyspaces%2F0", nil)
}

// ask sends a request to one PD after another until one answers.
func (c *Cluster) ask(ctx context.Context, method, path string, answer any) error {
	var faults []error
	for _, s := range c.pd {
		err := s.running()
		if err == nil {
			err = c.askOne(ctx, s, method, path, answer)
		}
		if err == nil {
			return nil
		}
		faults = append(faults, err)
	}
	return fmt.Errorf("no PD answers %s: %w", path, errors.Join(faults...))
}

func (c *Cluster) askOne(ctx context.Context, s *server, method, path string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+"/pd/api/v1/"+path, nil)
	if err != nil {
		return err
	}
	reply, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s says %s", s.name, reply.Status)
	}
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(reply.Body).Decode(answer); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

func dial(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
