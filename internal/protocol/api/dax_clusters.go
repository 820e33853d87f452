package api

// The shapes of the control plane of DAX. Its item operations have the shapes of
// DynamoDB.

// DAXPage is the page of a list that a request asks for.
type DAXPage struct {
	MaxResults *int32
	NextToken  *string
}

// CreateCluster makes a cluster.
type CreateCluster struct {
	ClusterName                   *string `must:"present"`
	NodeType                      *string `must:"present"`
	ReplicationFactor             *int32  `must:"present"`
	IamRoleArn                    *string `must:"present"`
	Description                   *string
	AvailabilityZones             []string
	SubnetGroupName               *string
	SecurityGroupIds              []string
	PreferredMaintenanceWindow    *string
	NotificationTopicArn          *string
	ParameterGroupName            *string
	Tags                          []Tag
	SSESpecification              *ClusterEncryption
	ClusterEndpointEncryptionType *string `must:"oneof=NONE|TLS"`
	NetworkType                   *string `must:"oneof=ipv4|ipv6|dual_stack"`
}

// ClusterEncryption asks for the encryption of a cluster's disks.
type ClusterEncryption struct {
	Enabled *bool `must:"present"`
}

// UpdateCluster changes the members of a cluster that are given.
type UpdateCluster struct {
	ClusterName                *string `must:"present"`
	Description                *string
	PreferredMaintenanceWindow *string
	NotificationTopicArn       *string
	NotificationTopicStatus    *string
	ParameterGroupName         *string
	SecurityGroupIds           []string
}

// DeleteCluster removes a cluster.
type DeleteCluster struct {
	ClusterName *string `must:"present"`
}

// IncreaseReplicationFactor adds nodes to a cluster.
type IncreaseReplicationFactor struct {
	ClusterName          *string `must:"present"`
	NewReplicationFactor *int32  `must:"present"`
	AvailabilityZones    []string
}

// DecreaseReplicationFactor removes nodes from a cluster.
type DecreaseReplicationFactor struct {
	ClusterName          *string `must:"present"`
	NewReplicationFactor *int32  `must:"present"`
	AvailabilityZones    []string
	NodeIdsToRemove      []string
}

// RebootNode restarts a node.
type RebootNode struct {
	ClusterName *string `must:"present"`
	NodeId      *string `must:"present"`
}

// ClusterReply answers the requests that change a cluster.
type ClusterReply struct {
	Cluster *Cluster
}

// DescribeClusters asks for clusters.
type DescribeClusters struct {
	ClusterNames []string
	DAXPage
}

// DescribeClustersReply answers a DescribeClusters.
type DescribeClustersReply struct {
	NextToken string
	Clusters  []Cluster `reply:"always"`
}

// Cluster describes a cluster.
type Cluster struct {
	ClusterName                   string
	Description                   *string
	ClusterArn                    string
	TotalNodes                    int32 `reply:"always"`
	ActiveNodes                   int32 `reply:"always"`
	NodeType                      string
	Status                        string
	ClusterDiscoveryEndpoint      *DAXEndpoint
	NodeIdsToRemove               []string
	Nodes                         []ClusterNode
	PreferredMaintenanceWindow    string
	NotificationConfiguration     *ClusterNotifications
	SubnetGroup                   string
	SecurityGroups                []SecurityGroup
	IamRoleArn                    string
	ParameterGroup                *ParameterGroupStatus
	SSEDescription                *ClusterSSE
	ClusterEndpointEncryptionType string
	NetworkType                   string
}

// DAXEndpoint is where a cluster or a node is reached.
type DAXEndpoint struct {
	Address string
	Port    int32 `reply:"always"`
	URL     string
}

// ClusterNode describes a node of a cluster.
type ClusterNode struct {
	NodeId               string
	Endpoint             *DAXEndpoint
	NodeCreateTime       *Time
	AvailabilityZone     string
	NodeStatus           string
	ParameterGroupStatus string
}

// ClusterNotifications is the topic of a cluster's events.
type ClusterNotifications struct {
	TopicArn    string
	TopicStatus string
}

// SecurityGroup is a security group of a cluster.
type SecurityGroup struct {
	SecurityGroupIdentifier string
	Status                  string
}

// ParameterGroupStatus says whether a cluster runs with the values of its parameter group.
type ParameterGroupStatus struct {
	ParameterGroupName   string
	ParameterApplyStatus string
	NodeIdsToReboot      []string
}

// ClusterSSE describes the encryption of a cluster's disks.
type ClusterSSE struct {
	Status string
}

// CreateParameterGroup makes a parameter group.
type CreateParameterGroup struct {
	ParameterGroupName *string `must:"present"`
	Description        *string
}

// UpdateParameterGroup sets parameters of a group.
type UpdateParameterGroup struct {
	ParameterGroupName  *string              `must:"present"`
	ParameterNameValues []ParameterNameValue `must:"present"`
}

// ParameterNameValue is a parameter with its value.
type ParameterNameValue struct {
	ParameterName  *string
	ParameterValue *string
}

// ParameterGroupReply answers the requests that change a parameter group.
type ParameterGroupReply struct {
	ParameterGroup *ParameterGroup
}

// ParameterGroup describes a parameter group.
type ParameterGroup struct {
	ParameterGroupName string
	Description        *string
}

// DeleteParameterGroup removes a parameter group.
type DeleteParameterGroup struct {
	ParameterGroupName *string `must:"present"`
}

// DeletionReply answers the removal of a parameter group or a subnet group.
type DeletionReply struct {
	DeletionMessage string
}

// DescribeParameterGroups asks for parameter groups.
type DescribeParameterGroups struct {
	ParameterGroupNames []string
	DAXPage
}

// DescribeParameterGroupsReply answers a DescribeParameterGroups.
type DescribeParameterGroupsReply struct {
	NextToken       string
	ParameterGroups []ParameterGroup `reply:"always"`
}

// DescribeParameters asks for the parameters of a group.
type DescribeParameters struct {
	ParameterGroupName *string `must:"present"`
	Source             *string
	DAXPage
}

// DescribeDefaultParameters asks for the parameters of new groups.
type DescribeDefaultParameters struct {
	DAXPage
}

// ParametersReply answers a DescribeParameters and a DescribeDefaultParameters.
type ParametersReply struct {
	NextToken  string
	Parameters []DAXParameter `reply:"always"`
}

// DAXParameter describes a parameter.
type DAXParameter struct {
	ParameterName          string
	ParameterType          string
	ParameterValue         string
	NodeTypeSpecificValues []NodeTypeValue `reply:"always"`
	Description            string
	Source                 string
	DataType               string
	AllowedValues          string
	IsModifiable           string
	ChangeType             string
}

// NodeTypeValue is the value of a parameter on one type of nodes. No parameter has any.
type NodeTypeValue struct {
	NodeType string
	Value    string
}

// CreateSubnetGroup makes a subnet group.
type CreateSubnetGroup struct {
	SubnetGroupName *string `must:"present"`
	Description     *string
	SubnetIds       []string `must:"present"`
}

// UpdateSubnetGroup changes the members of a subnet group that are given.
type UpdateSubnetGroup struct {
	SubnetGroupName *string `must:"present"`
	Description     *string
	SubnetIds       []string
}

// SubnetGroupReply answers the requests that change a subnet group.
type SubnetGroupReply struct {
	SubnetGroup *SubnetGroup
}

// SubnetGroup describes a subnet group.
type SubnetGroup struct {
	SubnetGroupName       string
	Description           *string
	VpcId                 string
	Subnets               []ClusterSubnet
	SupportedNetworkTypes []string
}

// ClusterSubnet describes a subnet.
type ClusterSubnet struct {
	SubnetIdentifier       string
	SubnetAvailabilityZone string
	SupportedNetworkTypes  []string
}

// DeleteSubnetGroup removes a subnet group.
type DeleteSubnetGroup struct {
	SubnetGroupName *string `must:"present"`
}

// DescribeSubnetGroups asks for subnet groups.
type DescribeSubnetGroups struct {
	SubnetGroupNames []string
	DAXPage
}

// DescribeSubnetGroupsReply answers a DescribeSubnetGroups.
type DescribeSubnetGroupsReply struct {
	NextToken    string
	SubnetGroups []SubnetGroup `reply:"always"`
}

// DescribeEvents asks for what was done with clusters and groups.
type DescribeEvents struct {
	SourceName *string
	SourceType *string `must:"oneof=CLUSTER|PARAMETER_GROUP|SUBNET_GROUP"`
	StartTime  *Time
	EndTime    *Time
	Duration   *int32
	DAXPage
}

// DescribeEventsReply answers a DescribeEvents.
type DescribeEventsReply struct {
	NextToken string
	Events    []DAXEvent `reply:"always"`
}

// DAXEvent is something that was done.
type DAXEvent struct {
	SourceName string
	SourceType string
	Message    string
	Date       *Time
}

// ListTags asks for the tags of a cluster.
type ListTags struct {
	ResourceName *string `must:"present"`
	NextToken    *string
}

// TagCluster is TagResource of DAX.
type TagCluster struct {
	ResourceName *string `must:"present"`
	Tags         []Tag   `must:"present"`
}

// UntagCluster is UntagResource of DAX.
type UntagCluster struct {
	ResourceName *string  `must:"present"`
	TagKeys      []string `must:"present"`
}

// ClusterTagsReply answers the requests about tags of a cluster.
type ClusterTagsReply struct {
	NextToken string
	Tags      []Tag `reply:"always"`
}
