package api

// The shapes of the third service, Application Auto Scaling.

// ScalableID names what is scaled: a dimension of a resource.
type ScalableID struct {
	ServiceNamespace  *string `must:"present,namespace"`
	ResourceId        *string `must:"present,minlen=1,maxlen=1600"`
	ScalableDimension *string `must:"present,dimension"`
}

// ScalableFilter is what a list is about; without a resource it is about all.
type ScalableFilter struct {
	ServiceNamespace  *string `must:"present,namespace"`
	ScalableDimension *string `must:"dimension"`
	MaxResults        *int32
	NextToken         *string
}

// RegisterScalableTarget registers a target, or changes it.
type RegisterScalableTarget struct {
	ScalableID
	MinCapacity    *int32
	MaxCapacity    *int32
	RoleARN        *string `must:"minlen=1,maxlen=1600"`
	SuspendedState *SuspendedState
	Tags           map[string]string
}

// RegisterScalableTargetReply answers a RegisterScalableTarget.
type RegisterScalableTargetReply struct {
	ScalableTargetARN string
}

// SuspendedState says which kinds of scaling are suspended.
type SuspendedState struct {
	DynamicScalingInSuspended  *bool
	DynamicScalingOutSuspended *bool
	ScheduledScalingSuspended  *bool
}

// DeregisterScalableTarget removes a target with its policies and scheduled
// actions.
type DeregisterScalableTarget struct {
	ScalableID
}

// DescribeScalableTargets asks for targets.
type DescribeScalableTargets struct {
	ScalableFilter
	ResourceIds []string `must:"maxlen=50,eachlen=1600"`
}

// DescribeScalableTargetsReply answers a DescribeScalableTargets.
type DescribeScalableTargetsReply struct {
	ScalableTargets []ScalableTarget `reply:"always"`
	NextToken       string
}

// ScalableTarget describes a target.
type ScalableTarget struct {
	ServiceNamespace  string
	ResourceId        string
	ScalableDimension string
	MinCapacity       int32 `reply:"always"`
	MaxCapacity       int32 `reply:"always"`
	RoleARN           string
	CreationTime      *Time
	SuspendedState    *SuspendedState
	ScalableTargetARN string
}

// PutScalingPolicy sets a policy.
type PutScalingPolicy struct {
	PolicyName *string `must:"present,minlen=1,maxlen=256"`
	ScalableID
	PolicyType                               *string `must:"oneof=StepScaling|TargetTrackingScaling|PredictiveScaling"`
	TargetTrackingScalingPolicyConfiguration *TargetTracking
	StepScalingPolicyConfiguration           *OtherScaling
	PredictiveScalingPolicyConfiguration     *OtherScaling
}

// TargetTracking configures a target tracking policy.
type TargetTracking struct {
	TargetValue                   *float64 `must:"present"`
	PredefinedMetricSpecification *PredefinedMetric
	CustomizedMetricSpecification *OtherScaling
	ScaleOutCooldown              *int32
	ScaleInCooldown               *int32
	DisableScaleIn                *bool
}

// PredefinedMetric names the metric of a policy.
type PredefinedMetric struct {
	PredefinedMetricType *string `must:"present,oneof=DynamoDBReadCapacityUtilization|DynamoDBWriteCapacityUtilization|ALBRequestCountPerTarget|RDSReaderAverageCPUUtilization|RDSReaderAverageDatabaseConnections|EC2SpotFleetRequestAverageCPUUtilization|EC2SpotFleetRequestAverageNetworkIn|EC2SpotFleetRequestAverageNetworkOut|SageMakerVariantInvocationsPerInstance|ECSServiceAverageCPUUtilization|ECSServiceAverageMemoryUtilization|AppStreamAverageCapacityUtilization|ComprehendInferenceUtilization|LambdaProvisionedConcurrencyUtilization|CassandraReadCapacityUtilization|CassandraWriteCapacityUtilization|KafkaBrokerStorageUtilization|ElastiCacheEngineCPUUtilization|ElastiCacheDatabaseMemoryUsagePercentage|ElastiCachePrimaryEngineCPUUtilization|ElastiCacheReplicaEngineCPUUtilization|ElastiCacheDatabaseMemoryUsageCountedForEvictPercentage|NeptuneReaderAverageCPUUtilization|SageMakerVariantProvisionedConcurrencyUtilization|ElastiCacheDatabaseCapacityUsageCountedForEvictPercentage|SageMakerInferenceComponentInvocationsPerCopy|WorkSpacesAverageUserSessionsCapacityUtilization|SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution|SageMakerVariantConcurrentRequestsPerModelHighResolution"`
	ResourceLabel        *string `must:"minlen=1,maxlen=1023"`
}

// OtherScaling stands for a configuration that DynamoDB does not support, or that
// needs metrics of other services. Its members are not read.
type OtherScaling struct{}

// PutScalingPolicyReply answers a PutScalingPolicy.
type PutScalingPolicyReply struct {
	PolicyARN string
	Alarms    []ScalingAlarm
}

// ScalingAlarm is an alarm of a policy.
type ScalingAlarm struct {
	AlarmName string
	AlarmARN  string
}

// DeleteScalingPolicy removes a policy.
type DeleteScalingPolicy struct {
	PolicyName *string `must:"present,minlen=1,maxlen=1600"`
	ScalableID
}

// DescribeScalingPolicies asks for policies.
type DescribeScalingPolicies struct {
	PolicyNames []string `must:"maxlen=50,eachlen=1600"`
	ScalableFilter
	ResourceId *string `must:"minlen=1,maxlen=1600"`
}

// DescribeScalingPoliciesReply answers a DescribeScalingPolicies.
type DescribeScalingPoliciesReply struct {
	ScalingPolicies []ScalingPolicy `reply:"always"`
	NextToken       string
}

// ScalingPolicy describes a policy.
type ScalingPolicy struct {
	PolicyARN                                string
	PolicyName                               string
	ServiceNamespace                         string
	ResourceId                               string
	ScalableDimension                        string
	PolicyType                               string
	TargetTrackingScalingPolicyConfiguration *TargetTracking
	Alarms                                   []ScalingAlarm
	CreationTime                             *Time
}

// PutScheduledAction sets a scheduled action.
type PutScheduledAction struct {
	ScheduledActionName *string `must:"present,minlen=1,maxlen=256"`
	ScalableID
	Schedule             *string `must:"minlen=1,maxlen=1600"`
	Timezone             *string `must:"minlen=1,maxlen=1600"`
	StartTime            *Time
	EndTime              *Time
	ScalableTargetAction *ScalableTargetAction
}

// ScalableTargetAction is the bounds that a scheduled action sets.
type ScalableTargetAction struct {
	MinCapacity *int32
	MaxCapacity *int32
}

// DeleteScheduledAction removes a scheduled action.
type DeleteScheduledAction struct {
	ScheduledActionName *string `must:"present,minlen=1,maxlen=1600"`
	ScalableID
}

// DescribeScheduledActions asks for scheduled actions.
type DescribeScheduledActions struct {
	ScheduledActionNames []string `must:"maxlen=50,eachlen=1600"`
	ScalableFilter
	ResourceId *string `must:"minlen=1,maxlen=1600"`
}

// DescribeScheduledActionsReply answers a DescribeScheduledActions.
type DescribeScheduledActionsReply struct {
	ScheduledActions []ScheduledAction `reply:"always"`
	NextToken        string
}

// ScheduledAction describes a scheduled action.
type ScheduledAction struct {
	ScheduledActionName  string
	ScheduledActionARN   string
	ServiceNamespace     string
	Schedule             string
	Timezone             string
	ResourceId           string
	ScalableDimension    string
	StartTime            *Time
	EndTime              *Time
	ScalableTargetAction *ScalableTargetAction
	CreationTime         *Time
}

// DescribeScalingActivities asks for activities.
type DescribeScalingActivities struct {
	ScalableFilter
	ResourceId                 *string `must:"minlen=1,maxlen=1600"`
	IncludeNotScaledActivities *bool
}

// DescribeScalingActivitiesReply answers a DescribeScalingActivities.
type DescribeScalingActivitiesReply struct {
	ScalingActivities []ScalingActivity `reply:"always"`
	NextToken         string
}

// ScalingActivity is something that auto scaling did.
type ScalingActivity struct {
	ActivityId        string
	ServiceNamespace  string
	ResourceId        string
	ScalableDimension string
	Description       string
	Cause             string
	StartTime         *Time
	EndTime           *Time
	StatusCode        string
	StatusMessage     string
}

// TagScalableTarget is TagResource of auto scaling.
type TagScalableTarget struct {
	ResourceARN *string           `must:"present,minlen=1,maxlen=1011"`
	Tags        map[string]string `must:"present"`
}

// UntagScalableTarget is UntagResource of auto scaling.
type UntagScalableTarget struct {
	ResourceARN *string  `must:"present,minlen=1,maxlen=1011"`
	TagKeys     []string `must:"present,maxlen=200,eachlen=128"`
}

// ListTagsForScalableTarget is ListTagsForResource of auto scaling.
type ListTagsForScalableTarget struct {
	ResourceARN *string `must:"present,minlen=1,maxlen=1011"`
}

// ListTagsForScalableTargetReply answers a ListTagsForScalableTarget.
type ListTagsForScalableTargetReply struct {
	Tags map[string]string `reply:"always"`
}

// Empty is a reply with an empty object, which a client of auto scaling expects.
type Empty struct{}

// DescribeTableReplicaAutoScaling asks for the auto scaling of a global table.
type DescribeTableReplicaAutoScaling struct {
	TableName string `must:"present,table"`
}

// UpdateTableReplicaAutoScaling changes the auto scaling of a global table. Its
// other members are not read: there are no global tables.
type UpdateTableReplicaAutoScaling struct {
	TableName string `must:"present,table"`
}
