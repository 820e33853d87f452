package ops

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/insights"
	"github.com/stator-db/stator/internal/protocol/api"
)

func (s *Service) updateContributorInsights(ctx context.Context, in *api.UpdateContributorInsights) (*api.UpdateContributorInsightsReply, error) {
	reply := &api.UpdateContributorInsightsReply{TableName: in.TableName, IndexName: stringOf(in.IndexName)}
	mode := ""
	if *in.ContributorInsightsAction == "ENABLE" {
		mode = cmp.Or(stringOf(in.ContributorInsightsMode), insights.ModeAll)
	}
	before, err := s.insightsOf(in.TableName, reply.IndexName)
	if err != nil {
		return nil, err
	}
	after, err := s.DB.SetInsights(ctx, in.TableName, reply.IndexName, mode)
	if err != nil {
		return nil, err
	}
	switch {
	case before == after && !after.Failed:
		reply.ContributorInsightsStatus = s.insightsStatus(after)
	case mode != "":
		reply.ContributorInsightsStatus = "ENABLING"
	default:
		reply.ContributorInsightsStatus = "DISABLING"
	}
	reply.ContributorInsightsMode = cmp.Or(mode, before.Mode)
	return reply, nil
}

// insightsOf returns the setting of a table or of a global index.
func (s *Service) insightsOf(table, index string) (schema.Insights, error) {
	d, err := s.DB.Describe(table)
	if err != nil {
		return schema.Insights{}, err
	}
	if index == "" {
		return d.Insights, nil
	}
	x, ok := d.Index(index)
	if !ok || !x.Global {
		return schema.Insights{}, db.NoInsightsIndex(table, index)
	}
	return x.Insights, nil
}

// insightsStatus returns the status of a setting.
func (s *Service) insightsStatus(set schema.Insights) string {
	settled := s.DB.InsightsSettled(set)
	switch {
	case set.Mode == "" && (settled || set.Changed.IsZero()):
		return "DISABLED"
	case set.Mode == "":
		return "DISABLING"
	case !settled:
		return "ENABLING"
	case set.Failed:
		return "FAILED"
	}
	return "ENABLED"
}

func (s *Service) describeContributorInsights(_ context.Context, in *api.DescribeContributorInsights) (*api.DescribeContributorInsightsReply, error) {
	reply := &api.DescribeContributorInsightsReply{TableName: in.TableName, IndexName: stringOf(in.IndexName)}
	set, err := s.insightsOf(in.TableName, reply.IndexName)
	if err != nil {
		return nil, err
	}
	reply.ContributorInsightsStatus = s.insightsStatus(set)
	reply.LastUpdateDateTime = api.TimeOf(set.Changed)
	reply.ContributorInsightsMode = set.Mode
	switch reply.ContributorInsightsStatus {
	case "FAILED":
		reply.FailureException = &api.FailureException{ExceptionName: "LimitExceededException",
			ExceptionDescription: fmt.Sprintf("The number of Contributor Insights rules would exceed the limit of %d. Disable Contributor Insights of other tables or indexes.", db.MaxInsightsRules)}
	case "ENABLED":
		t, err := s.DB.Table(in.TableName)
		if err != nil {
			return nil, err
		}
		reply.ContributorInsightsRuleList = ruleNames(t, reply.IndexName, set)
	}
	return reply, nil
}

// ruleNames returns the names of the rules of a table or of a global index.
func ruleNames(t *schema.Table, index string, set schema.Insights) (names []string) {
	key, place := t.Key, t.Name
	if x, ok := t.Index(index); ok {
		key, place = x.Key, t.Name+"-"+index
	}
	for _, kind := range insights.KindsOf(set.Mode, len(key.Sort) > 0) {
		names = append(names, fmt.Sprintf("DynamoDBContributorInsights-%s-%s-%d", kind, place, set.Enabled.UnixMilli()))
	}
	return names
}

// maxInsightsPage is how many summaries a page has if the request does not say it.
const maxInsightsPage = 100

func (s *Service) listContributorInsights(_ context.Context, in *api.ListContributorInsights) (*api.ListContributorInsightsReply, error) {
	limit := maxInsightsPage
	if in.MaxResults != nil && *in.MaxResults > 0 { // the service declares no minimum
		limit = int(*in.MaxResults)
	}
	all, err := s.insightsSummaries(stringOf(in.TableName))
	if err != nil {
		return nil, err
	}
	if in.NextToken != nil {
		from := slices.IndexFunc(all, func(c api.ContributorInsightsSummary) bool { return summaryToken(&c) > *in.NextToken })
		if from < 0 {
			from = len(all)
		}
		all = all[from:]
	}
	reply := &api.ListContributorInsightsReply{ContributorInsightsSummaries: all}
	if len(all) > limit {
		reply.ContributorInsightsSummaries, reply.NextToken = all[:limit], summaryToken(&all[limit-1])
	}
	return reply, nil
}

// summaryToken orders summaries: a table is before its indexes.
func summaryToken(c *api.ContributorInsightsSummary) string { return c.TableName + "/" + c.IndexName }

// insightsSummaries returns the tables and indexes whose insights are not disabled, of
// one table or of all.
func (s *Service) insightsSummaries(table string) (all []api.ContributorInsightsSummary, err error) {
	all = []api.ContributorInsightsSummary{}
	names := []string{table}
	if table == "" {
		names, _ = s.DB.Tables("", 1<<20)
	} else if _, err := s.DB.Describe(table); err != nil {
		return nil, err
	}
	for _, name := range names {
		d, err := s.DB.Describe(name)
		if err != nil {
			continue // deleted meanwhile
		}
		add := func(index string, set schema.Insights) {
			if status := s.insightsStatus(set); status != "DISABLED" {
				all = append(all, api.ContributorInsightsSummary{TableName: name, IndexName: index, ContributorInsightsStatus: status, ContributorInsightsMode: set.Mode})
			}
		}
		add("", d.Insights)
		for _, x := range d.Indexes {
			add(x.Name, x.Insights)
		}
	}
	slices.SortFunc(all, func(a, b api.ContributorInsightsSummary) int {
		return strings.Compare(summaryToken(&a), summaryToken(&b))
	})
	return all, nil
}

// stringOf returns the value of an optional member; empty if it is absent.
func stringOf(member *string) string {
	if member == nil {
		return ""
	}
	return *member
}

// InsightsRule returns the rule of a name, and the names of the attributes that its keys
// consist of.
func (s *Service) InsightsRule(name string) (rule *insights.Rule, labels []string, ok bool) {
	names, _ := s.DB.Tables("", 1<<20)
	for _, table := range names {
		t, err := s.DB.Table(table)
		if err != nil {
			continue
		}
		if rule, labels, ok = s.insightsRule(t, "", &t.Key, t.Insights, name); ok {
			return rule, labels, true
		}
		for i := range t.Indexes {
			x := &t.Indexes[i]
			if rule, labels, ok = s.insightsRule(t, x.Name, &x.Key, x.Insights, name); ok {
				return rule, labels, true
			}
		}
	}
	return nil, nil, false
}

// insightsRule returns the rule of a name if it is of this table or index.
func (s *Service) insightsRule(t *schema.Table, index string, key *schema.Key, set schema.Insights, name string) (*insights.Rule, []string, bool) {
	i := slices.Index(ruleNames(t, index, set), name)
	rules := s.DB.Insights(t.Name, index)
	if set.Mode == "" || i < 0 || rules == nil {
		return nil, nil, false
	}
	kind := insights.KindsOf(set.Mode, len(key.Sort) > 0)[i]
	labels := []string{strings.Join(attributeNames(key.Partition), ",")}
	if kind == insights.AccessedItems || kind == insights.ThrottledItems {
		labels = append(labels, strings.Join(attributeNames(key.Sort), ","))
	}
	rule := rules.Rule(kind) // nil if the mode was changed meanwhile
	return rule, labels, rule != nil
}
