package ops

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/protocol/api"
)

// Each operation asks for permissions: what is not listed cannot be permitted.
func TestPermissions(t *testing.T) {
	const table, other = "arn:aws:dynamodb:us-east-1:000000000000:table/Orders", "arn:aws:dynamodb:us-east-1:000000000000:table/Items"
	restored := "BatchWriteItem " + table + ", DeleteItem " + table + ", GetItem " + table + ", PutItem " + table + ", Query " + table + ", Scan " + table + ", UpdateItem " + table
	named := `{"TableName":"Orders"}`
	define := `"TableName":"Orders","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]`
	key := `{"TableName":"Orders","Key":{"pk":{"S":"a"}}}`
	of := func(member, arn string) string { return `{"` + member + `":"` + arn + `"}` }
	stream := table + "/stream/2026-01-01T00:00:00.000"
	tt := newTableTest(t, 0)
	tt.make(strings.Replace(define, `"TableName":"Orders",`, `"TableName":"Orders","StreamSpecification":{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"},`, 1))
	enabled, _ := tt.s.DB.Describe("Orders")
	label := enabled.Streams[0].Label
	shards := tt.ask("DescribeStream", of("StreamArn", table+"/stream/"+label))
	_, shard, _ := strings.Cut(shards, `"ShardId":"`)
	shard, _, _ = strings.Cut(shard, `"`)
	_, iterator, _ := strings.Cut(tt.ask("GetShardIterator", `{"StreamArn":"`+table+"/stream/"+label+`","ShardId":"`+shard+`","ShardIteratorType":"LATEST"}`), `"ShardIterator":"`)
	iterator = strings.TrimSuffix(iterator, `"}`)

	tt.s.triggers = func() Triggers { return mailTrigger{} }
	cases := map[string][2]string{
		"BatchExecuteStatement":           {`{"Statements":[{"Statement":"SELECT * FROM Orders WHERE pk='a'"},{"Statement":"SELECT * FROM Items.byId WHERE pk='a'"}]}`, "PartiQLSelect " + table + ", PartiQLSelect " + other + "/index/byId"},
		"BatchGetItem":                    {`{"RequestItems":{"Orders":{"Keys":[{"pk":{"S":"a"}}]},"` + other + `":{"Keys":[{"pk":{"S":"a"}}]}}}`, "BatchGetItem " + table + ", BatchGetItem " + other},
		"BatchWriteItem":                  {`{"RequestItems":{"Orders":[{"DeleteRequest":{"Key":{"pk":{"S":"a"}}}}]}}`, "BatchWriteItem " + table},
		"CreateBackup":                    {`{"TableName":"Orders","BackupName":"one"}`, "CreateBackup " + table},
		"CreateTable":                     {`{` + define + `,"Tags":[{"Key":"a","Value":"b"}],"ResourcePolicy":"{}"}`, "CreateTable " + table + ", TagResource " + table + ", PutResourcePolicy " + table},
		"DeleteBackup":                    {of("BackupArn", table+"/backup/01489173575360-b308cd7d"), "DeleteBackup " + table + "/backup/01489173575360-b308cd7d"},
		"DeleteItem":                      {key, "DeleteItem " + table},
		"DeleteResourcePolicy":            {of("ResourceArn", table), "DeleteResourcePolicy " + table},
		"DeleteTable":                     {named, "DeleteTable " + table},
		"DescribeBackup":                  {of("BackupArn", table+"/backup/01489173575360-b308cd7d"), "DescribeBackup " + table + "/backup/01489173575360-b308cd7d"},
		"DescribeContinuousBackups":       {named, "DescribeContinuousBackups " + table},
		"DescribeContributorInsights":     {`{"TableName":"Orders","IndexName":"byId"}`, "DescribeContributorInsights " + table + "/index/byId"},
		"DescribeEndpoints":               {`{}`, "DescribeEndpoints *"},
		"DescribeExport":                  {of("ExportArn", table+"/export/01489173575360-b308cd7d"), "DescribeExport " + table + "/export/01489173575360-b308cd7d"},
		"DescribeImport":                  {of("ImportArn", table+"/import/01489173575360-b308cd7d"), "DescribeImport " + table + "/import/01489173575360-b308cd7d"},
		"DescribeLimits":                  {`{}`, "DescribeLimits *"},
		"DescribeTable":                   {named, "DescribeTable " + table},
		"DescribeTableReplicaAutoScaling": {named, "DescribeTableReplicaAutoScaling " + table},
		"DescribeTimeToLive":              {named, "DescribeTimeToLive " + table},
		"ExecuteStatement":                {`{"Statement":"INSERT INTO \"Orders\" VALUE {'pk':'a'}"}`, "PartiQLInsert " + table},
		"ExecuteTransaction":              {`{"TransactStatements":[{"Statement":"UPDATE Orders SET a=1 WHERE pk='a'"},{"Statement":"DELETE FROM Items WHERE pk='a'"},{"Statement":"EXISTS(SELECT * FROM Items WHERE pk='b' AND a=1)"}]}`, "PartiQLUpdate " + table + ", PartiQLDelete " + other + ", PartiQLSelect " + other},
		"ExportTableToPointInTime":        {`{"TableArn":"` + table + `","S3Bucket":"bucket"}`, "ExportTableToPointInTime " + table},
		"GetItem":                         {key, "GetItem " + table},
		"GetResourcePolicy":               {of("ResourceArn", stream), "GetResourcePolicy " + stream},
		"ImportTable":                     {`{"S3BucketSource":{"S3Bucket":"bucket"},"InputFormat":"CSV","TableCreationParameters":{` + define + `}}`, "ImportTable " + table},
		"ListBackups":                     {`{}`, "ListBackups *"},
		"ListContributorInsights":         {`{}`, "ListContributorInsights *"},
		"ListExports":                     {`{}`, "ListExports *"},
		"ListImports":                     {`{}`, "ListImports *"},
		"ListTables":                      {`{}`, "ListTables *"},
		"ListTagsOfResource":              {of("ResourceArn", table), "ListTagsOfResource " + table},
		"PutItem":                         {`{"TableName":"` + table + `","Item":{"pk":{"S":"a"}}}`, "PutItem " + table},
		"PutResourcePolicy":               {`{"ResourceArn":"` + table + `","Policy":"{}"}`, "PutResourcePolicy " + table},
		"Query":                           {`{"TableName":"Orders","IndexName":"byId"}`, "Query " + table + "/index/byId"},
		"RestoreTableFromBackup":          {`{"BackupArn":"` + other + `/backup/01489173575360-b308cd7d","TargetTableName":"Orders"}`, "RestoreTableFromBackup " + other + "/backup/01489173575360-b308cd7d, RestoreTableFromBackup " + table + ", " + restored},
		"RestoreTableToPointInTime":       {`{"SourceTableName":"Items","TargetTableName":"Orders","UseLatestRestorableTime":true}`, "RestoreTableToPointInTime " + other + ", RestoreTableToPointInTime " + table + ", " + restored},
		"Scan":                            {named, "Scan " + table},
		"TagResource":                     {`{"ResourceArn":"` + table + `","Tags":[{"Key":"a","Value":"b"}]}`, "TagResource " + table},
		"TransactGetItems":                {`{"TransactItems":[{"Get":` + key + `}]}`, "GetItem " + table},
		"TransactWriteItems":              {`{"TransactItems":[{"Put":{"TableName":"Orders","Item":{"pk":{"S":"a"}}}},{"Delete":{"TableName":"Items","Key":{"pk":{"S":"a"}}}},{"Update":{"TableName":"Orders","Key":{"pk":{"S":"b"}},"UpdateExpression":"SET a=b"}},{"ConditionCheck":{"TableName":"Items","Key":{"pk":{"S":"a"}},"ConditionExpression":"a=b"}}]}`, "PutItem " + table + ", DeleteItem " + other + ", UpdateItem " + table + ", ConditionCheckItem " + other},
		"UntagResource":                   {`{"ResourceArn":"` + table + `","TagKeys":["a"]}`, "UntagResource " + table},
		"UpdateContinuousBackups":         {`{"TableName":"Orders","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true}}`, "UpdateContinuousBackups " + table},
		"UpdateContributorInsights":       {`{"TableName":"Orders","ContributorInsightsAction":"ENABLE"}`, "UpdateContributorInsights " + table},
		"UpdateItem":                      {key, "UpdateItem " + table},
		"UpdateTable":                     {named, "UpdateTable " + table},
		"UpdateTableReplicaAutoScaling":   {named, "UpdateTableReplicaAutoScaling " + table},
		"UpdateTimeToLive":                {`{"TableName":"Orders","TimeToLiveSpecification":{"AttributeName":"ttl","Enabled":true}}`, "UpdateTimeToLive " + table},
		"DescribeStream":                  {of("StreamArn", stream), "DescribeStream " + stream},
		"GetRecords":                      {of("ShardIterator", iterator), "GetRecords " + table + "/stream/" + label},
		"GetShardIterator":                {`{"StreamArn":"` + stream + `","ShardId":"shardId-00000001494539429187-3e1e1a2b","ShardIteratorType":"LATEST"}`, "GetShardIterator " + stream},
		"ListStreams":                     {`{}`, "ListStreams *"},
		"SetThrottling":                   {`{"TableName":"Orders","Throttling":"on"}`, "stator:SetThrottling " + table},
		"GetHeat":                         {`{"TableName":"Orders","IndexName":"byId"}`, "stator:GetHeat " + table + "/index/byId"},
		"GetShapes":                       {`{}`, "stator:GetShapes *"},
		"GetItemAt":                       {`{"TableName":"Orders","Key":{"pk":{"S":"a"}},"AsOf":1}`, "stator:GetItemAt " + table + ", GetItem " + table},
		"QueryAt":                         {`{"TableName":"Orders","IndexName":"byId","AsOf":1}`, "stator:QueryAt " + table + "/index/byId, Query " + table + "/index/byId"},
		"ScanAt":                          {`{"TableName":"Orders","AsOf":1}`, "stator:ScanAt " + table + ", Scan " + table},
		"ItemHistory":                     {key, "stator:ItemHistory " + table + ", GetItem " + table},
		"UndoChanges":                     {`{"TableName":"Orders","From":1,"To":2}`, "stator:UndoChanges " + table + ", Scan " + table},
		"DescribeExpiry":                  {named, "stator:DescribeExpiry " + table + ", Scan " + table},
		"ListJobs":                        {`{}`, "stator:ListJobs *"},
		"ListTriggers":                    {`{}`, "stator:ListTriggers *"},
		"ListDeadLetters":                 {of("TriggerName", "mail"), "stator:ListDeadLetters " + table + ", Scan " + table},
		"ReplayDeadLetters":               {`{"TriggerName":"mail","All":true}`, "stator:ReplayDeadLetters " + table},
		"ExplainDenial":                   {of("RequestId", "A"), "stator:ExplainDenial *"},
		"CreateAccessKey":                 {`{}`, "stator:CreateAccessKey *"},
		"ListAccessKeys":                  {`{}`, "stator:ListAccessKeys *"},
		"DeleteAccessKey":                 {of("AccessKey", "A"), "stator:DeleteAccessKey *"},
		"PutPrincipal":                    {of("PrincipalArn", "A"), "stator:PutPrincipal *"},
		"GetPrincipal":                    {of("PrincipalArn", "A"), "stator:GetPrincipal *"},
		"ListPrincipals":                  {`{}`, "stator:ListPrincipals *"},
		"DeletePrincipal":                 {of("PrincipalArn", "A"), "stator:DeletePrincipal *"},
		"SetFaults":                       {of("Plan", "faults: []"), "stator:SetFaults *"},
		"GetFaults":                       {`{}`, "stator:GetFaults *"},
		"ListInjectedFaults":              {`{}`, "stator:ListInjectedFaults *"},
		"GetClock":                        {`{}`, "stator:GetClock *"},
		"SetClock":                        {`{"Time":1}`, "stator:SetClock *"},
		"AdvanceClock":                    {`{"Seconds":1}`, "stator:AdvanceClock *"},
		"FreezeClock":                     {`{}`, "stator:FreezeClock *"},
		"RunClock":                        {`{}`, "stator:RunClock *"},
		"CreateFork":                      {`{}`, "stator:CreateFork *"},
		"ListForks":                       {`{}`, "stator:ListForks *"},
		"DeleteFork":                      {of("ForkName", "A"), "stator:DeleteFork *"},
		"CreateSnapshot":                  {of("SnapshotName", "A"), "stator:CreateSnapshot *"},
		"ListSnapshots":                   {`{}`, "stator:ListSnapshots *"},
		"DeleteSnapshot":                  {of("SnapshotName", "A"), "stator:DeleteSnapshot *"},
		"Rewind":                          {of("SnapshotName", "A"), "stator:Rewind *"},
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(operations)), slices.Collect(maps.Keys(streamOperations)), slices.Collect(maps.Keys(ownOperations))) {
		c, ok := cases[name]
		if !ok {
			t.Errorf("%s is not tested", name)
			continue
		}
		request, err := Read(name, []byte(c[0]))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		found, err := tt.s.permissions(t.Context(), request)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var all []string
		for _, p := range found {
			all = append(all, strings.TrimPrefix(p.action, "dynamodb:")+" "+p.resource)
			if p.details == nil {
				continue
			}
			var fault *apierror.Error
			if _, err := p.details(); err != nil && !errors.As(err, &fault) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := strings.Join(all, ", "); got != c[1] {
			t.Errorf("%s needs\n%s\nwant\n%s", name, got, c[1])
		}
		audited := tt.s.Audit(t.Context(), request)
		if text := string(audited.Parameters); !strings.HasPrefix(text, "{") || strings.Contains(text, `"pk":{`) || strings.Contains(text, "'a'") {
			t.Errorf("%s is written down as %s", name, text)
		}
	}
	if p := permissionOnARN("dynamodb:TagResource", nil); p.resource != "*" {
		t.Errorf("a missing ARN is %v", p)
	}
	if _, err := tt.s.permissions(t.Context(), Request{name: "New", in: new(api.Empty)}); err == nil {
		t.Error("an operation that is not known is permitted")
	}
}

// Package policy and docs/policies.md have the actions that requests to stator itself need, each of which is one of an
// operation or of something that Permit decides about.
func TestOwnActions(t *testing.T) {
	document, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range ownOperations {
		if !policy.IsOwnAction(name) {
			t.Errorf("package policy does not have the action of %s", name)
		}
		if IsAction(name) {
			t.Errorf("%s is an operation", name)
		}
	}
	for _, name := range policy.OwnActions() {
		if ownOperations[name] == nil && !IsAction(name) {
			t.Errorf("nothing needs the action %s", name)
		}
		if !strings.Contains(string(document), "`stator:"+name+"`") {
			t.Errorf("docs/policies.md does not have stator:%s", name)
		}
	}
}

// What a request says about the items that it uses.
func TestPermissionDetails(t *testing.T) {
	tt := newTableTest(t, 0)
	tt.make(`"TableName":"Orders","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"N"},{"AttributeName":"sk","AttributeType":"B"},{"AttributeName":"c","AttributeType":"S"},{"AttributeName":"d","AttributeType":"S"}],
		"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],
		"GlobalSecondaryIndexes":[{"IndexName":"two","KeySchema":[{"AttributeName":"c","KeyType":"HASH"},{"AttributeName":"d","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"}}]`)
	item := `{"pk":{"N":"1.50"},"sk":{"B":"AA=="}}`
	for _, c := range []struct{ operation, body, want string }{
		{"GetItem", `{"TableName":"Orders","Key":` + item + `}`, "Attributes=pk,sk FirstPartitionKeyValues=1.5 LeadingKeys=1.5 ReturnConsumedCapacity=NONE Select=ALL_ATTRIBUTES"},
		{"GetItem", `{"TableName":"Orders","Key":` + item + `,"ProjectionExpression":"a.b, #c[1]","ExpressionAttributeNames":{"#c":"c"},"ReturnConsumedCapacity":"TOTAL"}`, "Attributes=pk,sk,a,c FirstPartitionKeyValues=1.5 LeadingKeys=1.5 ReturnConsumedCapacity=TOTAL Select=SPECIFIC_ATTRIBUTES"},
		{"UpdateItem", `{"TableName":"Orders","Key":` + item + `,"UpdateExpression":"SET a = b REMOVE e.f","ConditionExpression":"g > h","ReturnValues":"ALL_NEW"}`, "Attributes=pk,sk,a,e,b,g,h FirstPartitionKeyValues=1.5 LeadingKeys=1.5 ReturnConsumedCapacity=NONE ReturnValues=ALL_NEW"},
		{"DeleteItem", `{"TableName":"Orders","Key":` + item + `,"Expected":{"x":{"Exists":false}},"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`, "Attributes=pk,sk,x FirstPartitionKeyValues=1.5 LeadingKeys=1.5 ReturnConsumedCapacity=NONE ReturnValues=ALL_OLD"},
		{"Query", `{"TableName":"Orders","IndexName":"two","KeyConditionExpression":"c = :c AND d = :d","FilterExpression":"x = :c","ExpressionAttributeValues":{":c":{"S":"1"},":d":{"S":"2"}}}`, "Attributes=x,c,d FirstPartitionKeyValues=1 LeadingKeys=1 ReturnConsumedCapacity=NONE SecondPartitionKeyValues=2 Select=ALL_PROJECTED_ATTRIBUTES"},
		{"Query", `{"TableName":"Orders","KeyConditions":{"pk":{"ComparisonOperator":"EQ","AttributeValueList":[{"N":"3"}]}},"Select":"COUNT"}`, "Attributes=pk FirstPartitionKeyValues=3 LeadingKeys=3 ReturnConsumedCapacity=NONE Select=COUNT"},
		{"Scan", `{"TableName":"Orders","ScanFilter":{"x":{"ComparisonOperator":"NULL"}},"AttributesToGet":["y"]}`, "Attributes=x,y ReturnConsumedCapacity=NONE Select=SPECIFIC_ATTRIBUTES"},
		{"BatchGetItem", `{"RequestItems":{"Orders":{"Keys":[` + item + `,{"pk":{"N":"2"},"sk":{"B":"AA=="}}]}}}`, "Attributes=pk,sk FirstPartitionKeyValues=1.5,2 LeadingKeys=1.5,2 ReturnConsumedCapacity=NONE Select=ALL_ATTRIBUTES"},
		{"TransactGetItems", `{"TransactItems":[{"Get":{"TableName":"Orders","Key":` + item + `}}]}`, "Attributes=pk,sk EnclosingOperation=TransactGetItems FirstPartitionKeyValues=1.5 LeadingKeys=1.5 ReturnConsumedCapacity=NONE Select=ALL_ATTRIBUTES"},
		{"ExecuteStatement", `{"Statement":"SELECT a, b.c FROM Orders WHERE pk IN [1, 2] AND x = 3"}`, "Attributes=pk,x,a,b FirstPartitionKeyValues=1,2 FullTableScan=false LeadingKeys=1,2 ReturnConsumedCapacity=NONE Select=SPECIFIC_ATTRIBUTES"},
		{"ExecuteStatement", `{"Statement":"SELECT * FROM Orders WHERE pk > 1"}`, "Attributes=pk FullTableScan=true ReturnConsumedCapacity=NONE Select=ALL_ATTRIBUTES"},
		{"ExecuteStatement", `{"Statement":"UPDATE Orders SET a=1 WHERE pk=? AND sk=? RETURNING MODIFIED NEW *","Parameters":[{"N":"4"},{"B":"AA=="}]}`, "Attributes=pk,sk,a FirstPartitionKeyValues=4 LeadingKeys=4 ReturnConsumedCapacity=NONE ReturnValues=UPDATED_NEW"},
		{"ExecuteTransaction", `{"TransactStatements":[{"Statement":"EXISTS(SELECT a FROM Orders WHERE pk=4 AND sk=? AND b=1)","Parameters":[{"B":"AA=="}]}]}`, "Attributes=pk,sk,b,a EnclosingOperation=ExecuteTransaction FirstPartitionKeyValues=4 FullTableScan=false LeadingKeys=4 ReturnConsumedCapacity=NONE Select=SPECIFIC_ATTRIBUTES"},
		{"ExecuteTransaction", `{"TransactStatements":[{"Statement":"EXISTS(SELECT a FROM Orders WHERE pk=4 AND sk=? AND b=1)","Parameters":[{"B":"AA=="}],"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}]}`, "Attributes=pk,sk,b,a EnclosingOperation=ExecuteTransaction FirstPartitionKeyValues=4 FullTableScan=false LeadingKeys=4 ReturnConsumedCapacity=NONE ReturnValues=ALL_OLD Select=ALL_ATTRIBUTES"},
		{"CreateTable", `{"TableName":"Other","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"Tags":[{"Key":"team","Value":"blue"}]}`, "RequestTag/team=blue TagKeys=team"},
	} {
		request, err := Read(c.operation, []byte(c.body))
		if err != nil {
			t.Fatalf("%s: %v", c.body, err)
		}
		found, err := tt.s.permissions(t.Context(), request)
		if err != nil {
			t.Fatalf("%s: %v", c.body, err)
		}
		d, err := found[0].details()
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
		}
		var all []string
		bare := func(key string) string { _, name, _ := strings.Cut(key, ":"); return name }
		for key, value := range d.one {
			all = append(all, bare(key)+"="+value)
		}
		for key, values := range d.many {
			all = append(all, bare(key)+"="+strings.Join(values, ","))
		}
		slices.Sort(all)
		if got := strings.Join(all, " "); got != c.want {
			t.Errorf("%s %s\n got %s\nwant %s", c.operation, c.body, got, c.want)
		}
	}
}
