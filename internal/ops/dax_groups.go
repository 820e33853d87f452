package ops

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db/daxcluster"
	"github.com/stator-db/stator/internal/protocol/api"
)

// defaultParameterGroup always exists, and cannot be changed. It has the times to live of
// this server.
const defaultParameterGroup = "default.dax1.0"

func isDefaultParameterGroup(name string) bool { return strings.EqualFold(name, defaultParameterGroup) }

func noParameterGroup(name string) error {
	return apierror.DAX("ParameterGroupNotFoundFault", "Parameter group %s not found.", name)
}

var daxGroupName = pattern(`^[a-zA-Z](?:-?[a-zA-Z0-9._])*$`)

// groupNameFits checks the name of a new group.
func groupNameFits(member, name string) error {
	if len(name) > maxDAXName || !daxGroupName().MatchString(name) {
		return invalidValue("%s %s is not valid: it has 1 to %d letters, digits, periods, underscores and hyphens, begins with a letter, and neither ends with a hyphen nor has two in a row.", member, name, maxDAXName)
	}
	return nil
}

func (s *Service) createParameterGroup(ctx context.Context, in *api.CreateParameterGroup) (*api.ParameterGroupReply, error) {
	name := *in.ParameterGroupName
	if err := cmp.Or(groupNameFits("ParameterGroupName", name), descriptionFits(in.Description)); err != nil {
		return nil, err
	}
	now := s.DB.Now()
	err := daxcluster.Change(ctx, s.DB, func(r *daxcluster.Registry) error {
		switch {
		case isDefaultParameterGroup(name) || r.ParameterGroup(name) != nil:
			return apierror.DAX("ParameterGroupAlreadyExistsFault", "Parameter group %s already exists.", name)
		case len(r.ParameterGroups) >= maxParameterGroups:
			return apierror.DAX("ParameterGroupQuotaExceededFault", "There can be at most %d parameter groups.", maxParameterGroups)
		}
		r.ParameterGroups = append(r.ParameterGroups, &daxcluster.ParameterGroup{Name: name, Description: in.Description})
		r.Add(daxcluster.Event{Source: name, Type: daxcluster.OfParameterGroup, Message: "Parameter group created.", Time: now})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &api.ParameterGroupReply{ParameterGroup: &api.ParameterGroup{ParameterGroupName: name, Description: in.Description}}, nil
}

// maxParameterValues is how many parameters a request may set.
const maxParameterValues = 20

// changeableGroup returns a parameter group that can be changed.
func changeableGroup(r *daxcluster.Registry, name string) (*daxcluster.ParameterGroup, error) {
	if isDefaultParameterGroup(name) {
		return nil, apierror.DAX("InvalidParameterGroupStateFault", "The parameter group %s cannot be changed or deleted.", defaultParameterGroup)
	}
	if g := r.ParameterGroup(name); g != nil {
		return g, nil
	}
	return nil, noParameterGroup(name)
}

// The parameters.
const (
	queryTTLParameter = "query-ttl-millis"
	itemTTLParameter  = "record-ttl-millis"
)

func (s *Service) updateParameterGroup(ctx context.Context, in *api.UpdateParameterGroup) (*api.ParameterGroupReply, error) {
	if n := len(in.ParameterNameValues); n < 1 || n > maxParameterValues {
		return nil, invalidValue("ParameterNameValues has %d entries, but must have 1 to %d.", n, maxParameterValues)
	}
	now, reply := s.DB.Now(), new(api.ParameterGroupReply)
	err := daxcluster.Change(ctx, s.DB, func(r *daxcluster.Registry) error {
		g, err := changeableGroup(r, *in.ParameterGroupName)
		if err != nil {
			return err
		}
		for _, p := range in.ParameterNameValues {
			if err := setParameter(g, or(p.ParameterName, ""), or(p.ParameterValue, "")); err != nil {
				return err
			}
		}
		r.Add(daxcluster.Event{Source: g.Name, Type: daxcluster.OfParameterGroup, Message: "Parameter group modified.", Time: now})
		reply.ParameterGroup = &api.ParameterGroup{ParameterGroupName: g.Name, Description: g.Description}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return reply, s.ApplyDAXParameters(ctx)
}

// setParameter sets a parameter, which is a number of milliseconds.
func setParameter(g *daxcluster.ParameterGroup, name, text string) error {
	var to **int64
	switch name {
	case itemTTLParameter:
		to = &g.ItemTTL
	case queryTTLParameter:
		to = &g.QueryTTL
	default:
		return invalidValue("There is no parameter %s: there are %s and %s.", name, itemTTLParameter, queryTTLParameter)
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < 0 || value > int64(maxParameterTTL/time.Millisecond) {
		return invalidValue("The value %s of %s is not valid: it is a number of milliseconds from 0 to %d.", text, name, maxParameterTTL/time.Millisecond)
	}
	*to = &value
	return nil
}

// maxParameterTTL is the longest time to live, which bounds what can be a duration.
const maxParameterTTL = 100 * 365 * 24 * time.Hour

func (s *Service) deleteParameterGroup(ctx context.Context, in *api.DeleteParameterGroup) (*api.DeletionReply, error) {
	now, reply := s.DB.Now(), new(api.DeletionReply)
	err := daxcluster.Change(ctx, s.DB, func(r *daxcluster.Registry) error {
		g, err := changeableGroup(r, *in.ParameterGroupName)
		if err != nil {
			return err
		}
		for _, c := range r.Clusters {
			if strings.EqualFold(c.ParameterGroup, g.Name) {
				return apierror.DAX("InvalidParameterGroupStateFault", "The parameter group %s is used by the cluster %s.", g.Name, c.Name)
			}
		}
		r.ParameterGroups = slices.DeleteFunc(r.ParameterGroups, func(x *daxcluster.ParameterGroup) bool { return x == g })
		r.Add(daxcluster.Event{Source: g.Name, Type: daxcluster.OfParameterGroup, Message: "Parameter group deleted.", Time: now})
		reply.DeletionMessage = "Parameter group " + g.Name + " has been deleted."
		return nil
	})
	if err != nil {
		return nil, err
	}
	return reply, nil
}

func (s *Service) describeParameterGroups(ctx context.Context, in *api.DescribeParameterGroups) (*api.DescribeParameterGroupsReply, error) {
	r, err := daxcluster.Read(ctx, s.DB)
	if err != nil {
		return nil, err
	}
	text := "Default parameter group for DAX 1.0"
	all := append([]*daxcluster.ParameterGroup{{Name: defaultParameterGroup, Description: &text}}, r.ParameterGroups...)
	var list keyedList[api.ParameterGroup]
	for _, g := range all {
		if in.ParameterGroupNames == nil || containsName(in.ParameterGroupNames, g.Name) {
			list.add(g.Name, api.ParameterGroup{ParameterGroupName: g.Name, Description: g.Description})
		}
	}
	for _, name := range in.ParameterGroupNames {
		if !isDefaultParameterGroup(name) && r.ParameterGroup(name) == nil {
			return nil, noParameterGroup(name)
		}
	}
	page, next, err := daxPage(list, &in.DAXPage)
	return &api.DescribeParameterGroupsReply{ParameterGroups: page, NextToken: next}, err
}

// defaultTTL is the time to live that DAX has if nothing else is said.
const defaultTTL = 5 * time.Minute

// serverTTLs returns the times to live of this server in milliseconds, which are those of
// the default parameter group, and of other groups as long as they are not set.
func (s *Service) serverTTLs() (item, query int64) {
	port := s.dax()
	if !port.Cached {
		port = DAXPort{ItemTTL: defaultTTL, QueryTTL: defaultTTL}
	}
	return port.ItemTTL.Milliseconds(), port.QueryTTL.Milliseconds()
}

// groupTTLs returns the times to live of a parameter group.
func (s *Service) groupTTLs(g *daxcluster.ParameterGroup) (item, query int64) {
	item, query = s.serverTTLs()
	if g != nil {
		setIfGiven(&item, g.ItemTTL)
		setIfGiven(&query, g.QueryTTL)
	}
	return item, query
}

// Whether the nodes of a cluster run with the values of its parameter group.
const (
	parametersInSync = "in-sync"
	parametersDiffer = "pending-reboot"
)

// parametersApplied reports whether the cache of this server runs with the values of a parameter
// group. A server without a cache for clients of DAX has no times that could differ.
func (s *Service) parametersApplied(r *daxcluster.Registry, group string) string {
	item, query := s.serverTTLs()
	if s.cache != nil {
		runningItem, runningQuery := s.cache.TTLs()
		item, query = runningItem.Milliseconds(), runningQuery.Milliseconds()
	}
	groupItem, groupQuery := s.groupTTLs(r.ParameterGroup(group))
	if s.dax().Cached && (item != groupItem || query != groupQuery) {
		return parametersDiffer
	}
	return parametersInSync
}

// ApplyDAXParameters gives the cache for clients of DAX the times to live of the parameter group of the
// cluster that this server is. Without such a cluster they are those of the server.
func (s *Service) ApplyDAXParameters(ctx context.Context) error {
	if s.cache == nil || !s.dax().Cached {
		return nil
	}
	s.parameters.Lock() // so that the last change is the one that is applied
	defer s.parameters.Unlock()
	r, err := daxcluster.Read(ctx, s.DB)
	if err != nil {
		return err
	}
	var group *daxcluster.ParameterGroup
	if c := r.Cluster(s.cache.Cluster()); c != nil {
		group = r.ParameterGroup(c.ParameterGroup)
	}
	item, query := s.groupTTLs(group)
	s.cache.SetTTLs(time.Duration(item)*time.Millisecond, time.Duration(query)*time.Millisecond)
	return nil
}

func (s *Service) describeParameters(ctx context.Context, in *api.DescribeParameters) (*api.ParametersReply, error) {
	r, err := daxcluster.Read(ctx, s.DB)
	if err != nil {
		return nil, err
	}
	g := r.ParameterGroup(*in.ParameterGroupName)
	if g == nil && !isDefaultParameterGroup(*in.ParameterGroupName) {
		return nil, noParameterGroup(*in.ParameterGroupName)
	}
	item, query := s.groupTTLs(g)
	return describedParameters(item, query, in.Source, &in.DAXPage)
}

func (s *Service) describeDefaultParameters(_ context.Context, in *api.DescribeDefaultParameters) (*api.ParametersReply, error) {
	item, query := s.serverTTLs()
	return describedParameters(item, query, nil, &in.DAXPage)
}

// describedParameters describes both parameters. Their source is the user, as that of all
// parameters of DAX.
func describedParameters(item, query int64, source *string, in *api.DAXPage) (*api.ParametersReply, error) {
	var list keyedList[api.DAXParameter]
	for _, p := range []struct {
		name, description string
		value             int64
	}{
		{queryTTLParameter, "How long the results of queries and scans are cached, in milliseconds; 0 does not cache them", query},
		{itemTTLParameter, "How long items are cached, in milliseconds; 0 does not expire them", item},
	} {
		const user = "user"
		if source != nil && *source != user {
			continue
		}
		list.add(p.name, api.DAXParameter{ParameterName: p.name, ParameterType: "DEFAULT", ParameterValue: strconv.FormatInt(p.value, 10), NodeTypeSpecificValues: []api.NodeTypeValue{},
			Description: p.description, Source: user, DataType: "integer", AllowedValues: "0-", IsModifiable: "TRUE", ChangeType: "IMMEDIATE"})
	}
	page, next, err := daxPage(list, in)
	return &api.ParametersReply{Parameters: page, NextToken: next}, err
}

// Subnet groups

func noSubnetGroup(name string) error {
	return apierror.DAX("SubnetGroupNotFoundFault", "Subnet group %s not found.", name)
}

// subnetsFit checks the subnets of a group.
func subnetsFit(ids []string) error {
	if len(ids) > maxSubnets {
		return apierror.DAX("SubnetQuotaExceededFault", "A subnet group can have at most %d subnets.", maxSubnets)
	}
	if len(ids) == 0 {
		return invalidValue("SubnetIds must have at least one subnet.")
	}
	seen := make(map[string]bool)
	for _, id := range ids {
		if !strings.HasPrefix(id, "subnet-") || len(id) > maxDAXName {
			return apierror.DAX("InvalidSubnet", "The subnet %s is not valid: its id begins with subnet-.", id)
		}
		if seen[id] {
			return invalidValue("SubnetIds has %s twice.", id)
		}
		seen[id] = true
	}
	return nil
}

func (s *Service) createSubnetGroup(ctx context.Context, in *api.CreateSubnetGroup) (*api.SubnetGroupReply, error) {
	if err := cmp.Or(groupNameFits("SubnetGroupName", *in.SubnetGroupName), descriptionFits(in.Description), subnetsFit(in.SubnetIds)); err != nil {
		return nil, err
	}
	name, now := strings.ToLower(*in.SubnetGroupName), s.DB.Now()
	g := &daxcluster.SubnetGroup{Name: name, Description: in.Description, Subnets: in.SubnetIds}
	err := daxcluster.Change(ctx, s.DB, func(r *daxcluster.Registry) error {
		switch {
		case name == defaultSubnetGroup || r.SubnetGroup(name) != nil:
			return apierror.DAX("SubnetGroupAlreadyExistsFault", "Subnet group %s already exists.", name)
		case len(r.SubnetGroups) >= maxSubnetGroups:
			return apierror.DAX("SubnetGroupQuotaExceededFault", "There can be at most %d subnet groups.", maxSubnetGroups)
		}
		r.SubnetGroups = append(r.SubnetGroups, g)
		r.Add(daxcluster.Event{Source: name, Type: daxcluster.OfSubnetGroup, Message: "Subnet group created.", Time: now})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return describedSubnetGroup(ctx, g), nil
}

// changeSubnetGroup changes the subnet group of a name, and records an event.
func (s *Service) changeSubnetGroup(ctx context.Context, name, event string, change func(*daxcluster.Registry, *daxcluster.SubnetGroup) error) (changed *daxcluster.SubnetGroup, err error) {
	now := s.DB.Now()
	err = daxcluster.Change(ctx, s.DB, func(r *daxcluster.Registry) error {
		g := r.SubnetGroup(name)
		switch {
		case strings.EqualFold(name, defaultSubnetGroup):
			return invalidValue("The subnet group %s cannot be changed or deleted.", defaultSubnetGroup)
		case g == nil:
			return noSubnetGroup(name)
		}
		if err := change(r, g); err != nil {
			return err
		}
		r.Add(daxcluster.Event{Source: g.Name, Type: daxcluster.OfSubnetGroup, Message: event, Time: now})
		changed = g
		return nil
	})
	return changed, err
}

func (s *Service) updateSubnetGroup(ctx context.Context, in *api.UpdateSubnetGroup) (*api.SubnetGroupReply, error) {
	if err := descriptionFits(in.Description); err != nil {
		return nil, err
	}
	if in.SubnetIds != nil {
		if err := subnetsFit(in.SubnetIds); err != nil {
			return nil, err
		}
	}
	g, err := s.changeSubnetGroup(ctx, *in.SubnetGroupName, "Subnet group modified.", func(_ *daxcluster.Registry, g *daxcluster.SubnetGroup) error {
		if in.Description != nil {
			g.Description = in.Description
		}
		if in.SubnetIds != nil {
			g.Subnets = in.SubnetIds
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return describedSubnetGroup(ctx, g), nil
}

func (s *Service) deleteSubnetGroup(ctx context.Context, in *api.DeleteSubnetGroup) (*api.DeletionReply, error) {
	g, err := s.changeSubnetGroup(ctx, *in.SubnetGroupName, "Subnet group deleted.", func(r *daxcluster.Registry, g *daxcluster.SubnetGroup) error {
		for _, c := range r.Clusters {
			if c.SubnetGroup == g.Name {
				return apierror.DAX("SubnetGroupInUseFault", "The subnet group %s is used by the cluster %s.", g.Name, c.Name)
			}
		}
		r.SubnetGroups = slices.DeleteFunc(r.SubnetGroups, func(x *daxcluster.SubnetGroup) bool { return x == g })
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &api.DeletionReply{DeletionMessage: "Subnet group " + g.Name + " has been deleted."}, nil
}

// vpcID is the VPC of all subnets: there are no networks here.
const vpcID = "vpc-00000000000000000"

func describedSubnetGroup(ctx context.Context, g *daxcluster.SubnetGroup) *api.SubnetGroupReply {
	networks := []string{"ipv4"}
	d := &api.SubnetGroup{SubnetGroupName: g.Name, Description: g.Description, VpcId: vpcID, SupportedNetworkTypes: networks}
	for i, id := range g.Subnets {
		zone := callerOf(ctx).Region + string('a'+rune(i%3))
		d.Subnets = append(d.Subnets, api.ClusterSubnet{SubnetIdentifier: id, SubnetAvailabilityZone: zone, SupportedNetworkTypes: networks})
	}
	return &api.SubnetGroupReply{SubnetGroup: d}
}

func (s *Service) describeSubnetGroups(ctx context.Context, in *api.DescribeSubnetGroups) (*api.DescribeSubnetGroupsReply, error) {
	r, err := daxcluster.Read(ctx, s.DB)
	if err != nil {
		return nil, err
	}
	text := "Default subnet group"
	all := append([]*daxcluster.SubnetGroup{{Name: defaultSubnetGroup, Description: &text, Subnets: []string{"subnet-0000000000000000a", "subnet-0000000000000000b", "subnet-0000000000000000c"}}}, r.SubnetGroups...)
	var list keyedList[api.SubnetGroup]
	for _, g := range all {
		if in.SubnetGroupNames == nil || containsName(in.SubnetGroupNames, g.Name) {
			list.add(g.Name, *describedSubnetGroup(ctx, g).SubnetGroup)
		}
	}
	for _, name := range in.SubnetGroupNames {
		if !strings.EqualFold(name, defaultSubnetGroup) && r.SubnetGroup(name) == nil {
			return nil, noSubnetGroup(name)
		}
	}
	page, next, err := daxPage(list, &in.DAXPage)
	return &api.DescribeSubnetGroupsReply{SubnetGroups: page, NextToken: next}, err
}
