package cloudwatch

import (
	"github.com/stator-db/stator/internal/db/insights"
)

// Contributors of a report: the default and the maximum.
const (
	defaultContributors = 10
	maxContributors     = 100
)

// getInsightRuleReport returns the keys that a rule has counted most.
func (s *Service) getInsightRuleReport(in structure) (replyStruct, error) {
	name, given := in.text("RuleName")
	if !given {
		return nil, missing("RuleName")
	}
	seconds, err := in.number("Period")
	if err != nil {
		return nil, err
	}
	p, err := readPeriod(in, seconds)
	if err != nil {
		return nil, err
	}
	count := int64(defaultContributors)
	if _, given := in["MaxContributorCount"]; given {
		if count, err = in.number("MaxContributorCount"); err != nil {
			return nil, err
		}
		if count < 1 || count > maxContributors {
			return nil, invalid("The parameter MaxContributorCount must be from 1 to %d.", maxContributors)
		}
	}
	rule, labels, ok := s.from.InsightsRule(name)
	if !ok {
		return nil, &Fault{"ResourceNotFoundException", "ResourceNotFoundException", "The rule " + name + " does not exist."}
	}
	found := rule.Report(s.from.DB.Now(), p.from, p.to, int(count))
	contributors := []replyStruct{}
	for _, c := range found.Contributors {
		contributors = append(contributors, contributor(c, labels, p))
	}
	return replyStruct{
		{"KeyLabels", labels}, {"AggregationStatistic", "Sum"}, {"AggregateValue", found.Sum},
		{"ApproximateUniqueCount", int64(found.Keys)}, {"Contributors", contributors}, {"MetricDatapoints", []replyStruct{}},
	}, nil
}

// contributor returns what the requests of a key add up to.
func contributor(c insights.Contributions, labels []string, p timeWindow) replyStruct {
	keys := []string{c.Key.Partition, c.Key.Sort}[:len(labels)]
	points := []replyStruct{}
	for i := 0; i < len(c.Minutes); {
		at, sum := p.partOf(c.Minutes[i].Minute), 0.0
		for ; i < len(c.Minutes) && p.partOf(c.Minutes[i].Minute).Equal(at); i++ {
			sum += c.Minutes[i].Value
		}
		points = append(points, replyStruct{{"Timestamp", at}, {"ApproximateValue", sum}})
	}
	return replyStruct{{"Keys", keys}, {"ApproximateAggregateValue", c.Value}, {"Datapoints", points}}
}
