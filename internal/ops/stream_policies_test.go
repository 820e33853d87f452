package ops

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/protocol/principals"
)

// teamTable makes a table with a stream and with the tag of a team.
func (a *accessTest) teamTable(team string) (stream string) {
	a.Helper()
	a.make(`"TableName":"Team","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],
		"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"},"Tags":[{"Key":"team","Value":"` + team + `"}]`)
	t, err := a.s.DB.Table("Team")
	if err != nil {
		a.Fatal(err)
	}
	return "arn:aws:dynamodb:us-east-1:000000000000:table/Team/stream/" + t.Streams[0].Label
}

// withoutIdentity runs f without an identity, which everything is allowed.
func (a *accessTest) withoutIdentity(f func()) {
	identity := a.identity
	a.identity = nil
	defer func() { a.identity = identity }()
	f()
}

func (a *accessTest) attach(arn, document string) {
	a.Helper()
	text, _ := json.Marshal(document)
	a.withoutIdentity(func() { a.allowed("PutResourcePolicy", `{"ResourceArn":"`+arn+`","Policy":`+string(text)+`}`) })
	a.advance(policyInterval) // until then a table is not deleted
}

func (a *accessTest) iterator(stream string) string {
	a.Helper()
	var described struct {
		StreamDescription struct{ Shards []struct{ ShardId string } }
	}
	var found struct{ ShardIterator string }
	a.withoutIdentity(func() {
		text := a.allowed("DescribeStream", `{"StreamArn":"`+stream+`"}`)
		if err := json.Unmarshal([]byte(text), &described); err != nil || len(described.StreamDescription.Shards) == 0 {
			a.Fatalf("%v: %s", err, text)
		}
		text = a.allowed("GetShardIterator", fmt.Sprintf(`{"StreamArn":%q,"ShardId":%q,"ShardIteratorType":"TRIM_HORIZON"}`, stream, described.StreamDescription.Shards[0].ShardId))
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			a.Fatal(err)
		}
	})
	return `{"ShardIterator":"` + found.ShardIterator + `"}`
}

// deleteTeam deletes the table, of which its streams are left, and begins a new one of the same name if
// it gets a team.
func (a *accessTest) deleteTeam(next string) {
	a.Helper()
	a.withoutIdentity(func() { a.allowed("DeleteTable", `{"TableName":"Team"}`) })
	if next != "" {
		a.teamTable(next)
	}
}

// The policy of a stream decides as long as the stream can be read, also when its table was
// deleted and another one has its name.
func TestPolicyOfDroppedStream(t *testing.T) {
	for _, next := range []string{"", "b"} {
		const statement = `{"Version":"2012-10-17","Statement":{"Effect":"%s","Principal":{"AWS":"arn:aws:iam::000000000000:user/me"},"Action":"dynamodb:GetRecords","Resource":"*"}}`
		a := newAccessTest(t, `{"Effect":"Allow","Action":"dynamodb:*","Resource":"*"}`)
		stream := a.teamTable("a")
		records := a.iterator(stream)
		a.attach(stream, fmt.Sprintf(statement, "Deny"))
		a.denied("GetRecords", records)
		a.deleteTeam(next)
		a.denied("GetRecords", records)
		a.allowed("DescribeStream", `{"StreamArn":"`+stream+`"}`)

		a = newAccessTest(t, `{"Effect":"Allow","Action":"dynamodb:GetItem","Resource":"*"}`)
		stream = a.teamTable("a")
		records = a.iterator(stream)
		a.attach(stream, fmt.Sprintf(statement, "Allow"))
		a.allowed("GetRecords", records)
		a.deleteTeam(next)
		a.allowed("GetRecords", records)
		a.denied("DescribeStream", `{"StreamArn":"`+stream+`"}`)
	}
}

// The tags of a stream are those of its own table, also when that was deleted and another one
// has its name.
func TestTagsOfDroppedStream(t *testing.T) {
	a := newAccessTest(t, `{"Effect":"Allow","Action":"dynamodb:*","Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/team":"${aws:PrincipalTag/team}"}}}`)
	of := func(team string) {
		a.identity = &principals.Identity{Principal: a.identity.Principal, Policies: a.identity.Policies, Tags: map[string]string{"team": team}}
	}
	stream := a.teamTable("a")
	records, describe := a.iterator(stream), `{"StreamArn":"`+stream+`"}`
	for _, next := range []string{"", "b"} {
		if next == "" {
			a.deleteTeam("")
		} else {
			stream = a.teamTable(next)
		}
		of("a")
		a.allowed("GetRecords", records)
		a.allowed("DescribeStream", describe)
		of("b")
		a.denied("GetRecords", records)
		a.denied("DescribeStream", describe)
	}
	a.allowed("DescribeStream", `{"StreamArn":"`+stream+`"}`)
}

// A table does not keep policies for streams of a deleted table of its name: they would not decide.
func TestPolicyOfOthersStream(t *testing.T) {
	a := newAccessTest(t, `{"Effect":"Allow","Action":"dynamodb:*","Resource":"*"}`)
	const nothing = `{"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*","Action":"dynamodb:GetRecords","Resource":"*"}}`
	text, _ := json.Marshal(nothing)
	old := a.teamTable("a")
	for _, next := range []string{"", "b"} {
		if next == "" {
			a.deleteTeam("")
		} else {
			a.teamTable(next)
		}
		for operation, more := range map[string]string{"PutResourcePolicy": `,"Policy":` + string(text), "GetResourcePolicy": "", "DeleteResourcePolicy": ""} {
			if reply, err := a.try(operation, `{"ResourceArn":"`+old+`"`+more+`}`); err == nil || !strings.Contains(reply, "ResourceNotFoundException") {
				t.Errorf("%s on the stream of a deleted table: %s", operation, reply)
			}
		}
	}
}
