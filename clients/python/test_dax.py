"""boto3: the control plane of DAX on the same port."""

import os
import unittest

try:
    import boto3
except ImportError:
    raise unittest.SkipTest("boto3 is not installed (Debian: apt install python3-boto3)")

endpoint = os.environ["AWS_ENDPOINT_URL"]


class Clusters(unittest.TestCase):
    def setUp(self):
        self.dax = boto3.client("dax", endpoint_url=endpoint)

    def test_cluster_with_its_groups(self):
        dax = self.dax
        dax.create_subnet_group(SubnetGroupName="private", SubnetIds=["subnet-1", "subnet-2"])
        dax.create_parameter_group(ParameterGroupName="short", Description="short times")
        dax.update_parameter_group(
            ParameterGroupName="short",
            ParameterNameValues=[{"ParameterName": "record-ttl-millis", "ParameterValue": "60000"}],
        )
        values = {p["ParameterName"]: p["ParameterValue"] for p in dax.describe_parameters(ParameterGroupName="short")["Parameters"]}
        self.assertEqual(values["record-ttl-millis"], "60000")

        made = dax.create_cluster(
            ClusterName="Shop",
            NodeType="dax.r5.large",
            ReplicationFactor=3,
            IamRoleArn="arn:aws:iam::123456789012:role/DAX",
            SubnetGroupName="private",
            ParameterGroupName="short",
            Tags=[{"Key": "team", "Value": "shop"}],
        )["Cluster"]
        self.assertEqual((made["ClusterName"], made["Status"], made["TotalNodes"]), ("shop", "creating", 3))
        pages = dax.get_paginator("describe_clusters").paginate(ClusterNames=["shop"])
        (cluster,) = [c for page in pages for c in page["Clusters"]]
        self.assertEqual(cluster["Status"], "available")
        self.assertEqual([n["NodeId"] for n in cluster["Nodes"]], ["shop-a", "shop-b", "shop-c"])
        self.assertTrue(cluster["ClusterDiscoveryEndpoint"]["URL"].startswith("dax://"))

        with self.assertRaises(dax.exceptions.InvalidParameterGroupStateFault):
            dax.delete_parameter_group(ParameterGroupName="short")
        with self.assertRaises(dax.exceptions.SubnetGroupInUseFault):
            dax.delete_subnet_group(SubnetGroupName="private")
        with self.assertRaises(dax.exceptions.ClusterAlreadyExistsFault):
            dax.create_cluster(
                ClusterName="shop", NodeType="dax.r5.large", ReplicationFactor=1, IamRoleArn="arn:aws:iam::123456789012:role/DAX"
            )

        dax.decrease_replication_factor(ClusterName="shop", NewReplicationFactor=1, NodeIdsToRemove=["shop-a", "shop-b"])
        dax.update_cluster(ClusterName="shop", Description="smaller")
        cluster = dax.describe_clusters(ClusterNames=["shop"])["Clusters"][0]
        self.assertEqual((cluster["Description"], [n["NodeId"] for n in cluster["Nodes"]]), ("smaller", ["shop-c"]))
        dax.untag_resource(ResourceName=cluster["ClusterArn"], TagKeys=["team"])
        self.assertEqual(dax.list_tags(ResourceName=cluster["ClusterArn"])["Tags"], [])

        dax.delete_cluster(ClusterName="shop")
        with self.assertRaises(dax.exceptions.ClusterNotFoundFault):
            dax.describe_clusters(ClusterNames=["shop"])
        dax.delete_parameter_group(ParameterGroupName="short")
        dax.delete_subnet_group(SubnetGroupName="private")
        events = dax.describe_events(SourceType="CLUSTER", SourceName="shop")["Events"]
        self.assertEqual((events[0]["Message"], events[-1]["Message"]), ("Cluster deleted.", "Cluster created."))


if __name__ == "__main__":
    unittest.main()
