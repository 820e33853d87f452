package ops

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const daxRole = `"IamRoleArn":"arn:aws:iam::123456789012:role/DAX"`

// newCluster makes a cluster.
func (t *tableTest) newCluster(name string, nodes int, more string) {
	t.Helper()
	got := t.ask("AmazonDAXV3.CreateCluster", fmt.Sprintf(`{"ClusterName":%q,"NodeType":"dax.t3.small","ReplicationFactor":%d,%s%s}`, name, nodes, daxRole, more))
	if !strings.HasPrefix(got, "{") {
		t.Fatal(got)
	}
}

// Each operation of DAX asks for permissions on the clusters that it names.
func TestDAXPermissions(t *testing.T) {
	const arn = "arn:aws:dax:us-east-1:000000000000:cache/shop"
	onCluster, onGroup := `{"ClusterName":"Shop","NewReplicationFactor":2,"NodeId":"shop-a"}`, `{"ParameterGroupName":"g","SubnetGroupName":"g","SubnetIds":["subnet-1"],"ParameterNameValues":[]}`
	cases := map[string][2]string{
		"CreateCluster":    {`{"ClusterName":"Shop","NodeType":"dax.t3.small","ReplicationFactor":1,` + daxRole + `,"Tags":[{"Key":"a","Value":"b"}]}`, "dax:CreateCluster " + arn + ", dax:TagResource " + arn},
		"DescribeClusters": {`{"ClusterNames":["Shop"]}`, "dax:DescribeClusters " + arn},
		"TagResource":      {`{"ResourceName":"` + arn + `","Tags":[]}`, "dax:TagResource " + arn},
		"UntagResource":    {`{"ResourceName":"` + arn + `","TagKeys":[]}`, "dax:UntagResource " + arn},
		"ListTags":         {`{"ResourceName":"` + arn + `"}`, "dax:ListTags " + arn},
	}
	for _, name := range []string{"UpdateCluster", "DeleteCluster", "IncreaseReplicationFactor", "DecreaseReplicationFactor", "RebootNode"} {
		cases[name] = [2]string{onCluster, "dax:" + name + " " + arn}
	}
	tt := newTableTest(t, 0)
	for name := range daxOperations {
		c, ok := cases[name]
		if !ok {
			c = [2]string{onGroup, "dax:" + name + " *"}
		}
		request, err := Read(daxPrefix+name, []byte(c[0]))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		found, err := tt.s.permissions(t.Context(), request)
		var all []string
		for _, p := range found {
			all = append(all, p.action+" "+p.resource)
		}
		if got := strings.Join(all, ", "); err != nil || got != c[1] {
			t.Errorf("%s needs %s, %v, want %s", name, got, err, c[1])
		}
	}
	everything, _ := Read(daxPrefix+"DescribeClusters", []byte(`{}`))
	if found, _ := tt.s.permissions(t.Context(), everything); len(found) != 1 || found[0].resource != "*" {
		t.Errorf("all clusters need %v", found)
	}
}

// The tags of a cluster are values of aws:ResourceTag.
func TestTagsOfClustersAreConditions(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.newCluster("shop", 1, `,"Tags":[{"Key":"team","Value":"web"}]`)
	request, _ := Read(daxPrefix+"DeleteCluster", []byte(`{"ClusterName":"SHOP"}`))
	found, err := tt.s.permissions(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	values := conditionValues{service: tt.s, permission: &found[0]}
	var got []string
	values.eachTag(func(key, value string) { got = append(got, key+"="+value) })
	if !slices.Equal(got, []string{"team=web"}) {
		t.Errorf("tags are %v", got)
	}
}

// A cluster has the endpoint of the server, and says whether its parameter group is applied.
func TestClustersShowThePort(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.ask("AmazonDAXV3.CreateParameterGroup", `{"ParameterGroupName":"ttls"}`)
	tt.newCluster("plain", 2, `,"ParameterGroupName":"ttls"`)
	tt.newCluster("secure", 1, `,"ClusterEndpointEncryptionType":"TLS"`)
	described := func(name string) string {
		return tt.ask("AmazonDAXV3.DescribeClusters", `{"ClusterNames":["`+name+`"]}`)
	}
	expect := func(got string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(got, part) {
				t.Errorf("%s\ndoes not have %s", got, part)
			}
		}
	}
	expect(described("plain"), `"ClusterDiscoveryEndpoint":{"Address":"localhost","Port":8111,"URL":"dax://localhost:8111"}`, `"ParameterApplyStatus":"in-sync"`)
	expect(described("secure"), `"URL":"daxs://localhost:9111"`)

	tt.s.dax = func() DAXPort { return DAXPort{Address: "0.0.0.0:18111"} }
	expect(described("plain"), `"ClusterDiscoveryEndpoint":{"Address":"localhost","Port":18111,"URL":"dax://localhost:18111"}`)
	expect(described("secure"), `"URL":"daxs://localhost:9111"`)
	tt.s.dax = func() DAXPort {
		return DAXPort{Address: "[::1]:18111", TLSAddress: "cache.example.com:443", Cached: true, ItemTTL: time.Minute, QueryTTL: 2 * time.Minute}
	}
	expect(described("plain"), `"ClusterDiscoveryEndpoint":{"Address":"::1","Port":18111,"URL":"dax://[::1]:18111"}`, `"ParameterApplyStatus":"in-sync"`)
	expect(described("secure"), `{"Address":"cache.example.com","Port":443,"URL":"daxs://cache.example.com:443"}`)
	// Values that are not set, and those of the default group, are the server's.
	for _, group := range []string{"ttls", "default.dax1.0"} {
		expect(tt.ask("AmazonDAXV3.DescribeParameters", `{"ParameterGroupName":"`+group+`"}`), `"ParameterValue":"60000"`, `"ParameterValue":"120000"`)
	}
	tt.ask("AmazonDAXV3.UpdateParameterGroup", `{"ParameterGroupName":"ttls","ParameterNameValues":[{"ParameterName":"record-ttl-millis","ParameterValue":"5"}]}`)
	expect(described("plain"), `"ParameterApplyStatus":"pending-reboot"`, `"NodeIdsToReboot":["plain-a","plain-b"]`, `"ParameterGroupStatus":"pending-reboot"`)
	expect(described("secure"), `"ParameterApplyStatus":"in-sync"`)
	tt.ask("AmazonDAXV3.UpdateParameterGroup", `{"ParameterGroupName":"ttls","ParameterNameValues":[{"ParameterName":"record-ttl-millis","ParameterValue":"60000"}]}`)
	expect(described("plain"), `"ParameterApplyStatus":"in-sync"`)
}

// Clusters, groups and what they have are bounded.
func TestDAXLimits(t *testing.T) {
	tt := newTableTest(t, 0)
	refused := func(operation, body, want string) {
		t.Helper()
		if got := tt.ask("AmazonDAXV3."+operation, body); !strings.HasPrefix(got, want) {
			t.Errorf("%s %s: %s, want %s", operation, body, got, want)
		}
	}
	for i := range 5 {
		tt.newCluster(fmt.Sprintf("c%d", i), 9, "")
	}
	tt.newCluster("last", 5, "")
	refused("CreateCluster", `{"ClusterName":"more","NodeType":"dax.t3.small","ReplicationFactor":1,`+daxRole+`}`, "NodeQuotaForCustomerExceededFault")
	refused("IncreaseReplicationFactor", `{"ClusterName":"last","NewReplicationFactor":6}`, "NodeQuotaForCustomerExceededFault")
	for i := range maxParameterGroups {
		tt.ask("AmazonDAXV3.CreateParameterGroup", fmt.Sprintf(`{"ParameterGroupName":"g%d"}`, i))
	}
	refused("CreateParameterGroup", `{"ParameterGroupName":"more"}`, "ParameterGroupQuotaExceededFault")
	for i := range maxSubnetGroups {
		tt.ask("AmazonDAXV3.CreateSubnetGroup", fmt.Sprintf(`{"SubnetGroupName":"g%d","SubnetIds":["subnet-1"]}`, i))
	}
	refused("CreateSubnetGroup", `{"SubnetGroupName":"more","SubnetIds":["subnet-1"]}`, "SubnetGroupQuotaExceededFault")
	ids := make([]string, maxSubnets+1)
	for i := range ids {
		ids[i] = fmt.Sprintf(`"subnet-%d"`, i)
	}
	refused("UpdateSubnetGroup", `{"SubnetGroupName":"g1","SubnetIds":[`+strings.Join(ids, ",")+`]}`, "SubnetQuotaExceededFault")
	var tags []string
	for i := range maxTags {
		tags = append(tags, fmt.Sprintf(`{"Key":"k%d","Value":"v"}`, i))
	}
	const arn = "arn:aws:dax:us-east-1:000000000000:cache/last"
	tt.ask("AmazonDAXV3.TagResource", `{"ResourceName":"`+arn+`","Tags":[`+strings.Join(tags, ",")+`]}`)
	refused("TagResource", `{"ResourceName":"`+arn+`","Tags":[{"Key":"more"}]}`, "TagQuotaPerResourceExceeded")
	refused("UpdateCluster", `{"ClusterName":"last","Description":"`+strings.Repeat("a", maxDAXDescription+1)+`"}`, "InvalidParameterValueException")

	// Lists come in pages, complete and without duplicates.
	var names []string
	for token := ""; ; {
		var page struct {
			SubnetGroups []struct{ SubnetGroupName string }
			NextToken    string
		}
		if err := json.Unmarshal([]byte(tt.ask("AmazonDAXV3.DescribeSubnetGroups", `{"MaxResults":20,"NextToken":"`+token+`"}`)), &page); err != nil || len(page.SubnetGroups) > 20 {
			t.Fatal(len(page.SubnetGroups), err)
		}
		for _, g := range page.SubnetGroups {
			names = append(names, g.SubnetGroupName)
		}
		if token = page.NextToken; token == "" {
			break
		}
	}
	if n := len(names); n != maxSubnetGroups+1 || !slices.IsSorted(names) || len(slices.Compact(names)) != n {
		t.Errorf("%d groups in all pages: %v", n, names)
	}
}

// Events are listed by their time and source, the newest first, for two weeks.
func TestDAXEvents(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.newCluster("shop", 1, "")
	tt.advance(time.Hour)
	tt.ask("AmazonDAXV3.RebootNode", `{"ClusterName":"shop","NodeId":"shop-a"}`)
	messages := func(body string) (all []string) {
		t.Helper()
		var reply struct{ Events []struct{ Message string } }
		if err := json.Unmarshal([]byte(tt.ask("AmazonDAXV3.DescribeEvents", body)), &reply); err != nil {
			t.Fatal(err)
		}
		for _, e := range reply.Events {
			all = append(all, e.Message)
		}
		return all
	}
	const created, rebooted = "Cluster created.", "Node shop-a rebooted."
	start := 1_700_000_000
	for _, c := range []struct {
		body string
		want []string
	}{
		{`{}`, []string{rebooted, created}},
		{`{"Duration":30}`, []string{rebooted}},
		{fmt.Sprintf(`{"StartTime":%d,"Duration":10}`, start-60), []string{created}},
		{fmt.Sprintf(`{"StartTime":%d}`, start+60), []string{rebooted}},
		{fmt.Sprintf(`{"EndTime":%d}`, start+60), []string{created}},
		{fmt.Sprintf(`{"StartTime":%d,"EndTime":%d}`, start-60, start+60), []string{created}},
		{`{"SourceType":"SUBNET_GROUP"}`, nil},
		{`{"SourceType":"CLUSTER","SourceName":"SHOP","Duration":30}`, []string{rebooted}},
	} {
		if got := messages(c.body); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.body, got, c.want)
		}
	}
	if got := tt.ask("AmazonDAXV3.DescribeEvents", fmt.Sprintf(`{"StartTime":%d,"EndTime":%d}`, start, start-1)); !strings.HasPrefix(got, "InvalidParameterCombinationException") {
		t.Error(got)
	}
	tt.advance(15 * 24 * time.Hour)
	tt.ask("AmazonDAXV3.DeleteCluster", `{"ClusterName":"shop"}`)
	if got := messages(`{"Duration":20160}`); !slices.Equal(got, []string{"Cluster deleted."}) {
		t.Errorf("after two weeks: %v", got)
	}
}
