package ops

import (
	"context"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db/daxcluster"
	"github.com/stator-db/stator/internal/protocol/api"
)

// DAXPort describes the port of this server that clients of DAX connect to.
type DAXPort struct {
	// Address is host:port that clients dial, and TLSAddress the same for TLS; "" without such a
	// port. An address without a host is that of all interfaces.
	Address, TLSAddress string

	Cached            bool          // their requests go through a cache
	ItemTTL, QueryTTL time.Duration // of the cache
}

// The limits of clusters and their groups, and what they have if a request does not say.
const (
	maxClusterNodes     = 11
	maxDAXNodes         = 50 // of all clusters
	maxParameterGroups  = 20
	maxSubnetGroups     = 50
	maxSubnets          = 20 // of a group
	maxSecurityGroups   = 50 // of a cluster
	maxDAXDescription   = 1000
	maxDAXName          = 255 // of a group
	maxDAXIdentifier    = 1011
	maxDAXPage          = 100
	minDAXPage          = 20
	defaultDAXPage      = 100
	defaultSubnetGroup  = "default"
	defaultMaintenance  = "sun:05:00-sun:06:00"
	daxPort, daxTLSPort = 8111, 9111
)

// invalidValue is a member of a request with a value that cannot be.
func invalidValue(format string, args ...any) error {
	return apierror.DAX("InvalidParameterValueException", format, args...)
}

// invalidCombination is members of a request that do not fit each other.
func invalidCombination(format string, args ...any) error {
	return apierror.DAX("InvalidParameterCombinationException", format, args...)
}

func noCluster(name string) error {
	return apierror.DAX("ClusterNotFoundFault", "Cluster %s not found.", name)
}

// clusterARN returns the ARN of a cluster in the caller's region.
func (s *Service) clusterARN(ctx context.Context, name string) string {
	return "arn:aws:dax:" + callerOf(ctx).Region + ":" + s.account + ":cache/" + strings.ToLower(name)
}

var (
	clusterName       = pattern(`^[a-zA-Z](?:-?[a-zA-Z0-9])*$`)
	clusterNodeType   = pattern(`^dax\.[a-z0-9-]+\.[a-z0-9]+$`)
	roleARN           = pattern(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/.+$`)
	topicARN          = pattern(`^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:.+$`)
	maintenanceWindow = pattern(`^(sun|mon|tue|wed|thu|fri|sat):([01][0-9]|2[0-3]):([0-5][0-9])-(sun|mon|tue|wed|thu|fri|sat):([01][0-9]|2[0-3]):([0-5][0-9])$`)
)

// createClusterChecks look at the request alone.
var createClusterChecks = []func(*api.CreateCluster) error{
	func(in *api.CreateCluster) error {
		if len(*in.ClusterName) > 20 || !clusterName().MatchString(*in.ClusterName) {
			return invalidValue("The cluster name %s is not valid: it has 1 to 20 letters, digits and hyphens, begins with a letter, and neither ends with a hyphen nor has two in a row.", *in.ClusterName)
		}
		return nil
	},
	func(in *api.CreateCluster) error {
		return matches("NodeType", in.NodeType, clusterNodeType(), "dax.r5.large")
	},
	func(in *api.CreateCluster) error {
		return matches("IamRoleArn", in.IamRoleArn, roleARN(), "arn:aws:iam::123456789012:role/DAX")
	},
	func(in *api.CreateCluster) error {
		return topicFits(in.NotificationTopicArn)
	},
	func(in *api.CreateCluster) error { return windowFits(in.PreferredMaintenanceWindow) },
	func(in *api.CreateCluster) error { return descriptionFits(in.Description) },
	func(in *api.CreateCluster) error {
		return identifiersFit("SecurityGroupIds", in.SecurityGroupIds, maxSecurityGroups)
	},
	func(in *api.CreateCluster) error {
		return identifiersFit("AvailabilityZones", in.AvailabilityZones, maxClusterNodes)
	},
	func(in *api.CreateCluster) error { return clusterTagsFit(in.Tags) },
	func(in *api.CreateCluster) error {
		n := int(*in.ReplicationFactor)
		switch {
		case n < 1:
			return invalidValue("ReplicationFactor must be at least 1.")
		case n > maxClusterNodes:
			return tooManyClusterNodes()
		case in.AvailabilityZones != nil && len(in.AvailabilityZones) != n:
			return invalidCombination("There must be as many AvailabilityZones as the ReplicationFactor says.")
		}
		return nil
	},
}

func tooManyClusterNodes() error {
	return apierror.DAX("NodeQuotaForClusterExceededFault", "A cluster can have at most %d nodes.", maxClusterNodes)
}

// matches checks the form of a member.
func matches(member string, value *string, form *regexp.Regexp, example string) error {
	if value != nil && (len(*value) > maxDAXIdentifier || !form.MatchString(*value)) {
		return invalidValue("%s %s is not valid: it has the form of %s.", member, *value, example)
	}
	return nil
}

// topicFits checks a topic. An empty one removes it.
func topicFits(arn *string) error {
	if arn == nil || *arn == "" {
		return nil
	}
	return matches("NotificationTopicArn", arn, topicARN(), "arn:aws:sns:us-east-1:123456789012:topic")
}

func descriptionFits(text *string) error {
	if text != nil && utf8.RuneCountInString(*text) > maxDAXDescription {
		return invalidValue("A description can have at most %d characters.", maxDAXDescription)
	}
	return nil
}

func identifiersFit(member string, list []string, most int) error {
	if len(list) > most {
		return invalidValue("%s can have at most %d entries.", member, most)
	}
	for i, id := range list {
		if id == "" || len(id) > maxDAXName {
			return invalidValue("Entry %d of %s has %d characters, but must have 1 to %d.", i+1, member, len(id), maxDAXName)
		}
	}
	return nil
}

// windowFits checks a maintenance window, which has at least an hour.
func windowFits(window *string) error {
	if window == nil {
		return nil
	}
	m := maintenanceWindow().FindStringSubmatch(strings.ToLower(*window))
	if m == nil {
		return invalidValue("PreferredMaintenanceWindow %s is not valid: it has the form of sun:05:00-sun:09:00.", *window)
	}
	minute := func(day, hour, minute string) int {
		h, _ := strconv.Atoi(hour)
		n, _ := strconv.Atoi(minute)
		return (strings.Index("sunmontuewedthufrisat", day)/3*24+h)*60 + n
	}
	const week = 7 * 24 * 60
	if length := (minute(m[4], m[5], m[6]) - minute(m[1], m[2], m[3]) + week) % week; length < 60 {
		return invalidValue("PreferredMaintenanceWindow %s is not valid: it must have at least 60 minutes.", *window)
	}
	return nil
}

// The statuses of clusters and nodes. A change is complete when its reply is sent: the
// reply shows the status that DAX has meanwhile, and the next request finds the cluster
// available.
const (
	clusterCreating  = "creating"
	clusterAvailable = "available"
	clusterModifying = "modifying"
	clusterDeleting  = "deleting"
	nodeRebooting    = "rebooting"
)

func (s *Service) createCluster(ctx context.Context, in *api.CreateCluster) (*api.ClusterReply, error) {
	if err := firstFault(in, createClusterChecks); err != nil {
		return nil, err
	}
	name, now := strings.ToLower(*in.ClusterName), s.DB.Now()
	c := &daxcluster.Cluster{
		Name: name, ARN: s.clusterARN(ctx, name), Created: now, Description: in.Description, NodeType: *in.NodeType, Role: *in.IamRoleArn,
		SubnetGroup: strings.ToLower(or(in.SubnetGroupName, defaultSubnetGroup)), ParameterGroup: or(in.ParameterGroupName, defaultParameterGroup),
		SecurityGroups: in.SecurityGroupIds, Maintenance: strings.ToLower(or(in.PreferredMaintenanceWindow, defaultMaintenance)),
		Encrypted: in.SSESpecification != nil && *in.SSESpecification.Enabled, TLS: isSet(in.ClusterEndpointEncryptionType, "TLS"),
		NetworkType: or(in.NetworkType, "ipv4"), Tags: withClusterTags(nil, in.Tags),
	}
	if topic := or(in.NotificationTopicArn, ""); topic != "" {
		c.Topic, c.TopicStatus = topic, "active"
	}
	addNodes(c, int(*in.ReplicationFactor), in.AvailabilityZones, callerOf(ctx).Region, now)
	return s.changeClusters(ctx, clusterCreating, func(r *daxcluster.Registry) (*daxcluster.Cluster, error) {
		switch {
		case r.Cluster(name) != nil:
			return nil, apierror.DAX("ClusterAlreadyExistsFault", "Cluster %s already exists.", name)
		case r.Nodes()+len(c.Nodes) > maxDAXNodes:
			return nil, tooManyNodes()
		}
		if err := groupsExist(r, c); err != nil {
			return nil, err
		}
		r.Clusters = append(r.Clusters, c)
		r.Add(daxcluster.Event{Source: name, Type: daxcluster.OfCluster, Message: "Cluster created.", Time: now})
		return c, nil
	})
}

func tooManyNodes() error {
	return apierror.DAX("NodeQuotaForCustomerExceededFault", "All clusters together can have at most %d nodes.", maxDAXNodes)
}

// groupsExist checks that the groups of a cluster exist.
func groupsExist(r *daxcluster.Registry, c *daxcluster.Cluster) error {
	if !isDefaultParameterGroup(c.ParameterGroup) && r.ParameterGroup(c.ParameterGroup) == nil {
		return noParameterGroup(c.ParameterGroup)
	}
	if c.SubnetGroup != defaultSubnetGroup && r.SubnetGroup(c.SubnetGroup) == nil {
		return noSubnetGroup(c.SubnetGroup)
	}
	return nil
}

// changeClusters changes a cluster, and replies with its description in a status.
func (s *Service) changeClusters(ctx context.Context, status string, change func(*daxcluster.Registry) (*daxcluster.Cluster, error)) (*api.ClusterReply, error) {
	var changed *daxcluster.Cluster
	var after *daxcluster.Registry
	err := daxcluster.Change(ctx, s.DB, func(r *daxcluster.Registry) (err error) {
		changed, err = change(r)
		after = r
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.ApplyDAXParameters(ctx); err != nil {
		return nil, err
	}
	described := s.describeCluster(ctx, after, changed, status)
	return &api.ClusterReply{Cluster: &described}, nil
}

// changeCluster changes the cluster of a name.
func (s *Service) changeCluster(ctx context.Context, name *string, status string, change func(*daxcluster.Registry, *daxcluster.Cluster) (event string, err error)) (*api.ClusterReply, error) {
	now := s.DB.Now()
	return s.changeClusters(ctx, status, func(r *daxcluster.Registry) (*daxcluster.Cluster, error) {
		c := r.Cluster(*name)
		if c == nil {
			return nil, noCluster(*name)
		}
		event, err := change(r, c)
		if err != nil {
			return nil, err
		}
		r.Add(daxcluster.Event{Source: c.Name, Type: daxcluster.OfCluster, Message: event, Time: now})
		return c, nil
	})
}

// updateClusterChecks look at the request alone.
var updateClusterChecks = []func(*api.UpdateCluster) error{
	func(in *api.UpdateCluster) error { return descriptionFits(in.Description) },
	func(in *api.UpdateCluster) error { return windowFits(in.PreferredMaintenanceWindow) },
	func(in *api.UpdateCluster) error { return topicFits(in.NotificationTopicArn) },
	func(in *api.UpdateCluster) error {
		if status := in.NotificationTopicStatus; status != nil && *status != "active" && *status != "inactive" {
			return invalidValue("NotificationTopicStatus is %s, but must be active or inactive.", *status)
		}
		return nil
	},
	func(in *api.UpdateCluster) error {
		return identifiersFit("SecurityGroupIds", in.SecurityGroupIds, maxSecurityGroups)
	},
}

func (s *Service) updateCluster(ctx context.Context, in *api.UpdateCluster) (*api.ClusterReply, error) {
	if err := firstFault(in, updateClusterChecks); err != nil {
		return nil, err
	}
	return s.changeCluster(ctx, in.ClusterName, clusterModifying, func(r *daxcluster.Registry, c *daxcluster.Cluster) (string, error) {
		if in.Description != nil {
			c.Description = in.Description
		}
		if in.PreferredMaintenanceWindow != nil {
			c.Maintenance = strings.ToLower(*in.PreferredMaintenanceWindow)
		}
		if in.SecurityGroupIds != nil {
			c.SecurityGroups = in.SecurityGroupIds
		}
		setIfGiven(&c.ParameterGroup, in.ParameterGroupName)
		if topic := in.NotificationTopicArn; topic != nil {
			c.Topic, c.TopicStatus = *topic, "active"
		}
		setIfGiven(&c.TopicStatus, in.NotificationTopicStatus)
		switch {
		case c.Topic == "" && in.NotificationTopicStatus != nil:
			return "", invalidCombination("NotificationTopicStatus needs a notification topic, and the cluster %s has none.", c.Name)
		case c.Topic == "":
			c.TopicStatus = ""
		}
		return "Cluster modified.", groupsExist(r, c)
	})
}

func (s *Service) deleteCluster(ctx context.Context, in *api.DeleteCluster) (*api.ClusterReply, error) {
	return s.changeCluster(ctx, in.ClusterName, clusterDeleting, func(r *daxcluster.Registry, c *daxcluster.Cluster) (string, error) {
		r.Clusters = slices.DeleteFunc(r.Clusters, func(x *daxcluster.Cluster) bool { return x == c })
		return "Cluster deleted.", nil
	})
}

func (s *Service) describeClusters(ctx context.Context, in *api.DescribeClusters) (*api.DescribeClustersReply, error) {
	r, err := daxcluster.Read(ctx, s.DB)
	if err != nil {
		return nil, err
	}
	var list keyedList[api.Cluster]
	for _, c := range r.Clusters {
		if in.ClusterNames == nil || containsName(in.ClusterNames, c.Name) {
			list.add(c.Name, s.describeCluster(ctx, r, c, clusterAvailable))
		}
	}
	for _, name := range in.ClusterNames {
		if r.Cluster(name) == nil {
			return nil, noCluster(name)
		}
	}
	page, next, err := daxPage(list, &in.DAXPage)
	return &api.DescribeClustersReply{Clusters: page, NextToken: next}, err
}

// containsName reports whether a list has a name, in any case.
func containsName(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// daxPage returns a page of a list of the control plane.
func daxPage[T any](list keyedList[T], in *api.DAXPage) (page []T, next string, err error) {
	if n := in.MaxResults; n != nil && (*n < minDAXPage || *n > maxDAXPage) {
		return nil, "", invalidValue("MaxResults is %d, but must be from %d to %d.", *n, minDAXPage, maxDAXPage)
	}
	token := in.NextToken
	if token != nil && *token == "" {
		token = nil
	}
	if page, next, err = list.page(in.MaxResults, token, defaultDAXPage); err != nil {
		return nil, "", invalidValue("The NextToken is not valid.")
	}
	return page, next, nil
}

// describeCluster describes a cluster in a status.
func (s *Service) describeCluster(ctx context.Context, r *daxcluster.Registry, c *daxcluster.Cluster, status string) api.Cluster {
	inSync := s.parametersApplied(r, c.ParameterGroup)
	d := api.Cluster{
		ClusterName: c.Name, Description: c.Description, ClusterArn: c.ARN, TotalNodes: int32(len(c.Nodes)), NodeType: c.NodeType, Status: status,
		PreferredMaintenanceWindow: c.Maintenance, SubnetGroup: c.SubnetGroup, IamRoleArn: c.Role,
		ParameterGroup:                &api.ParameterGroupStatus{ParameterGroupName: c.ParameterGroup, ParameterApplyStatus: inSync},
		SSEDescription:                &api.ClusterSSE{Status: "DISABLED"},
		ClusterEndpointEncryptionType: "NONE", NetworkType: c.NetworkType,
	}
	if c.Encrypted {
		d.SSEDescription.Status = "ENABLED"
	}
	if c.TLS {
		d.ClusterEndpointEncryptionType = "TLS"
	}
	if c.Topic != "" {
		d.NotificationConfiguration = &api.ClusterNotifications{TopicArn: c.Topic, TopicStatus: c.TopicStatus}
	}
	for _, id := range c.SecurityGroups {
		d.SecurityGroups = append(d.SecurityGroups, api.SecurityGroup{SecurityGroupIdentifier: id, Status: "active"})
	}
	if inSync != parametersInSync {
		for _, n := range c.Nodes {
			d.ParameterGroup.NodeIdsToReboot = append(d.ParameterGroup.NodeIdsToReboot, n.ID)
		}
	}
	if status == clusterCreating {
		return d // it has no endpoint yet
	}
	d.ClusterDiscoveryEndpoint = s.daxEndpoint(ctx, c)
	for _, n := range c.Nodes {
		d.Nodes = append(d.Nodes, api.ClusterNode{NodeId: n.ID, Endpoint: s.daxEndpoint(ctx, c), NodeCreateTime: api.TimeOf(n.Created),
			AvailabilityZone: n.Zone, NodeStatus: clusterAvailable, ParameterGroupStatus: inSync})
	}
	if status != clusterDeleting {
		d.ActiveNodes = d.TotalNodes
	}
	return d
}

// daxEndpoint returns where clients reach a cluster: the port of this server, on the host that
// the caller uses if no other is known. Without such a port, it has the number that DAX has.
func (s *Service) daxEndpoint(ctx context.Context, c *daxcluster.Cluster) *api.DAXEndpoint {
	port := s.dax()
	scheme, address, number := "dax://", port.Address, daxPort
	if c.TLS {
		scheme, address, number = "daxs://", port.TLSAddress, daxTLSPort
	}
	host, text, _ := net.SplitHostPort(address)
	if n, err := strconv.Atoi(text); err == nil {
		number = n
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = hostOnly(callerOf(ctx).Host)
	}
	return &api.DAXEndpoint{Address: host, Port: int32(number), URL: scheme + net.JoinHostPort(host, strconv.Itoa(number))}
}

// hostOnly returns the host of an address that may have a port.
func hostOnly(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	if address = strings.Trim(address, "[]"); address == "" {
		return "localhost"
	}
	return address
}
