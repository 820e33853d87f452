"""boto3 and a server that throttles, whose clock the test sets."""

import datetime
import json
import os
import unittest
import urllib.request

try:
    import boto3
    from botocore.config import Config
except ImportError:
    raise unittest.SkipTest("boto3 is not installed (Debian: apt install python3-boto3)")

endpoint = os.environ["AWS_ENDPOINT_URL"]


def client(service):
    return boto3.client(service, endpoint_url=endpoint, config=Config(retries={"total_max_attempts": 1}))


def stator(operation, **members):
    headers = {
        "X-Amz-Target": "Stator." + operation,
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Date": "20260101T000000Z",
        "Authorization": "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=" + "0" * 64,
    }
    with urllib.request.urlopen(urllib.request.Request(endpoint, json.dumps(members).encode(), headers)) as reply:
        return json.load(reply)


class Capacity(unittest.TestCase):
    def setUp(self):
        self.dynamodb, self.scaling, self.cloudwatch = client("dynamodb"), client("application-autoscaling"), client("cloudwatch")
        now = stator("FreezeClock")["Time"]
        stator("AdvanceClock", Seconds=65 - now % 60)  # policies act two seconds after the end of a minute
        self.dynamodb.create_table(
            TableName="Scaled",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            ProvisionedThroughput={"ReadCapacityUnits": 10, "WriteCapacityUnits": 10},
        )
        self.dynamodb.update_contributor_insights(TableName="Scaled", ContributorInsightsAction="ENABLE")
        self.start = stator("GetClock")["Time"]

    def units(self):
        return self.dynamodb.describe_table(TableName="Scaled")["Table"]["ProvisionedThroughput"]["WriteCapacityUnits"]

    def minute(self, rate):
        """A minute with a number of write units a second, of ten seconds at a time; returns the units after it."""
        for _ in range(6):
            for n in range(rate):
                self.dynamodb.put_item(TableName="Scaled", Item={"id": {"S": f"k{n}"}, "text": {"S": "x" * 9_500}})  # 10 units
            stator("AdvanceClock", Seconds=10)
        return self.units()

    def test_units_follow_the_load(self):
        writes = {"ServiceNamespace": "dynamodb", "ResourceId": "table/Scaled", "ScalableDimension": "dynamodb:table:WriteCapacityUnits"}
        self.scaling.register_scalable_target(**writes, MinCapacity=10, MaxCapacity=100)
        self.scaling.put_scaling_policy(
            **writes,
            PolicyName="follow",
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration={
                "TargetValue": 70.0,
                "PredefinedMetricSpecification": {"PredefinedMetricType": "DynamoDBWriteCapacityUtilization"},
            },
        )
        stator("AdvanceClock", Seconds=300)  # a new table has the burst of one second
        self.assertEqual([self.minute(6) for _ in range(3)], [10, 10, 10])
        self.assertEqual([self.minute(12) for _ in range(3)], [10, 18, 18])  # two minutes above 70 %: 12 / 0.7
        after = [self.minute(6) for _ in range(18)]
        self.assertEqual(after[:14], [18] * 14)
        self.assertEqual(after[-1], 10)  # fifteen minutes below it

        def of(name, statistic):
            found = self.cloudwatch.get_metric_data(
                StartTime=datetime.datetime.fromtimestamp(self.start + 300, datetime.timezone.utc),
                EndTime=datetime.datetime.fromtimestamp(stator("GetClock")["Time"], datetime.timezone.utc),
                ScanBy="TimestampAscending",
                MetricDataQueries=[{"Id": "m", "MetricStat": {
                    "Metric": {"Namespace": "AWS/DynamoDB", "MetricName": name, "Dimensions": [{"Name": "TableName", "Value": "Scaled"}]},
                    "Period": 60, "Stat": statistic}}],
            )
            return found["MetricDataResults"][0]["Values"]

        consumed = of("ConsumedWriteCapacityUnits", "Sum")
        self.assertEqual(consumed[:6], [360, 360, 360, 720, 720, 720])
        self.assertEqual(consumed[6:], [360] * 18)
        self.assertEqual({10, 18} & set(of("ProvisionedWriteCapacityUnits", "Maximum")), {10, 18})

        rules = self.dynamodb.describe_contributor_insights(TableName="Scaled")["ContributorInsightsRuleList"]
        report = self.cloudwatch.get_insight_rule_report(
            RuleName=[r for r in rules if "-PKC-" in r][0],
            StartTime=datetime.datetime.fromtimestamp(self.start, datetime.timezone.utc),
            EndTime=datetime.datetime.fromtimestamp(stator("GetClock")["Time"] + 60, datetime.timezone.utc),
            Period=60,
            MaxContributorCount=10,
        )
        values = {c["Keys"][0]: c["ApproximateAggregateValue"] for c in report["Contributors"]}
        self.assertEqual(len(report["Contributors"]), 10)
        self.assertEqual(values["k0"], 3 * 10 * 6 * 24)  # a write unit counts as three

    def tearDown(self):
        self.dynamodb.delete_table(TableName="Scaled")


if __name__ == "__main__":
    unittest.main()
