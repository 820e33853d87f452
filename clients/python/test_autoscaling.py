"""boto3: Application Auto Scaling on the same port."""

import os
import unittest

try:
    import boto3
except ImportError:
    raise unittest.SkipTest("boto3 is not installed (Debian: apt install python3-boto3)")

endpoint = os.environ["AWS_ENDPOINT_URL"]


class AutoScaling(unittest.TestCase):
    def setUp(self):
        self.scaling = boto3.client("application-autoscaling", endpoint_url=endpoint)
        self.dynamodb = boto3.client("dynamodb", endpoint_url=endpoint)
        self.dynamodb.create_table(
            TableName="Scaled",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            ProvisionedThroughput={"ReadCapacityUnits": 5, "WriteCapacityUnits": 5},
        )
        self.reads = {
            "ServiceNamespace": "dynamodb",
            "ResourceId": "table/Scaled",
            "ScalableDimension": "dynamodb:table:ReadCapacityUnits",
        }

    def tearDown(self):
        self.dynamodb.delete_table(TableName="Scaled")

    def test_target_policy_and_schedule(self):
        self.scaling.register_scalable_target(**self.reads, MinCapacity=10, MaxCapacity=100)
        units = self.dynamodb.describe_table(TableName="Scaled")["Table"]["ProvisionedThroughput"]
        self.assertEqual(units["ReadCapacityUnits"], 10)

        put = self.scaling.put_scaling_policy(
            **self.reads,
            PolicyName="follow",
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration={
                "TargetValue": 50.0,
                "ScaleInCooldown": 60,
                "PredefinedMetricSpecification": {"PredefinedMetricType": "DynamoDBReadCapacityUtilization"},
            },
        )
        self.assertEqual(len(put["Alarms"]), 4)
        pages = self.scaling.get_paginator("describe_scaling_policies").paginate(ServiceNamespace="dynamodb")
        self.assertEqual([p["PolicyName"] for page in pages for p in page["ScalingPolicies"]], ["follow"])

        self.scaling.put_scheduled_action(
            **self.reads,
            ScheduledActionName="mornings",
            Schedule="cron(30 6 ? * MON-FRI *)",
            Timezone="America/New_York",
            ScalableTargetAction={"MinCapacity": 20},
        )
        actions = self.scaling.describe_scheduled_actions(ServiceNamespace="dynamodb")["ScheduledActions"]
        self.assertEqual(actions[0]["ScalableTargetAction"], {"MinCapacity": 20})

        activities = self.scaling.describe_scaling_activities(ServiceNamespace="dynamodb", ResourceId="table/Scaled")
        self.assertEqual(activities["ScalingActivities"][0]["Cause"], "minimum capacity was set to 10")

        self.scaling.deregister_scalable_target(**self.reads)
        with self.assertRaises(self.scaling.exceptions.ObjectNotFoundException) as missing:
            self.scaling.delete_scaling_policy(**self.reads, PolicyName="follow")
        self.assertIn("No scaling policy found", missing.exception.response["Error"]["Message"])


if __name__ == "__main__":
    unittest.main()
